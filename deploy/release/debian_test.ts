import assert from "node:assert/strict";
import { controlText, debianVersion, maintainerScripts } from "./debian.ts";
import { PACKAGES } from "./packages.ts";

function packageOf(name: string) {
  const found = PACKAGES.find((each) => each.name === name);
  assert.ok(found !== undefined);
  return found;
}

Deno.test.each([
  { version: "0.2.0", expected: "0.2.0" },
  { version: "0.2.0-rc.1", expected: "0.2.0~rc.1" },
])("debianVersion() $version is $expected, which comes before what it leads to", ({ version, expected }) => {
  assert.equal(debianVersion(version), expected);
});

Deno.test("controlText() has a service depend on the launcher of its own version, and on nothing of Debian's older", () => {
  const text = controlText(packageOf("gateway-control-plane"), {
    version: "0.2.0-rc.1",
    architecture: "all",
    kilobytes: 7,
  });
  assert.match(text, /^Version: 0\.2\.0~rc\.1$/m);
  assert.match(text, /^Depends: gateway-common \(= 0\.2\.0~rc\.1\)$/m);
  assert.doesNotMatch(text, /^Recommends:/m);
});

Deno.test("maintainerScripts() start nothing, and on an upgrade only what runs", () => {
  const { postinst = "" } = maintainerScripts(packageOf("gateway-signer"));
  assert.doesNotMatch(postinst, /systemctl (?:start|enable|restart)/);
  assert.match(postinst, /\[ -z "\$\{2-\}" \] \|\| systemctl try-restart gateway-signer\.service/);
});

Deno.test.each(PACKAGES.map(({ name }) => ({ name })))(
  "maintainerScripts() of $name remove no key, state or record",
  ({ name }) => {
    for (const text of Object.values(maintainerScripts(packageOf(name)))) {
      assert.doesNotMatch(text, /\brm\b|userdel|groupdel|find .*-delete/);
    }
  },
);

Deno.test.each([
  { name: "gateway-common", unit: "gateway-watch@signer.timer" },
  { name: "gateway-ctl", unit: "gateway-renew.timer" },
  { name: "gateway-ctl", unit: "gateway-backup.timer" },
  { name: "gateway-approval-bridge", unit: "gateway-approval-bridge.service" },
  { name: "gateway-debate", unit: "gateway-debate.service" },
  { name: "gateway-signer", unit: "gateway-ca-agent.service" },
])("maintainerScripts() of $name end $unit when it is removed, booted or not", ({ name, unit }) => {
  const { prerm = "" } = maintainerScripts(packageOf(name));
  assert.match(
    prerm,
    new RegExp(`then systemctl disable --now .*${unit}.*; else systemctl disable .*${unit}`),
  );
});

Deno.test("maintainerScripts() leave the CA's agent alone in an upgrade: it would forget the key", () => {
  const { postinst = "" } = maintainerScripts(packageOf("gateway-signer"));
  assert.match(postinst, /try-restart gateway-signer\.service$/m);
});
