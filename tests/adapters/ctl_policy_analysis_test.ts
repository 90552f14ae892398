import assert from "node:assert/strict";
import { SAMPLE_HOST_KEY } from "@gateway/shared/testing";
import { createFolder, run, SIGNER_KEYS, words } from "./ctl_fixture.ts";

const HOST = {
  addr: "10.0.0.1:22",
  user: "deploy",
  host_key: SAMPLE_HOST_KEY,
  principal: "host:web01",
  groups: ["web"],
};
const config = (allow: readonly string[]) => ({
  ...SIGNER_KEYS,
  hosts: { web01: HOST },
  command_policies: { web: { mode: "allowlist", allow } },
  group_command_policies: { web: ["web"] },
});
const FILES = {
  "signer.json": config(["^uptime$"]),
  "wide.json": config(["^uptime$", "^tar "]),
  "policy_tests.jsonc": {
    cases: [{ host: "web01", command: "uptime", expect: "allow", rule: "allow:^uptime$" }],
  },
  "failing.jsonc": {
    cases: [{ host: "web01", command: "id", expect: "allow" }, {
      host: "gone",
      command: "id",
      expect: "deny",
    }],
  },
  "unknown.jsonc": { cases: [{ host: "web01", command: "id", expect: "maybe" }] },
};

Deno.test.each<[line: string, exit: number, out: RegExp, err: string]>([
  ["policy lint", 0, /^No risks found\.\n$/, ""],
  [
    "policy lint --config wide.json",
    1,
    /web\.allow\[1\] "\^tar ": tar runs any command\n {4}allows: {2}tar .*\n {4}instead: \^tar -tf/,
    "",
  ],
  ["policy diff signer.json signer.json", 0, /^No access changes\.\n$/, ""],
  [
    "policy diff signer.json wide.json",
    3,
    /^\+ host web01: denied becomes allowed\n.*for example: tar x {3}\(allow:\^tar \)\n1 of 1/,
    "",
  ],
  [
    "policy diff wide.json signer.json",
    0,
    /^- host web01: allowed becomes denied\n.*tar x.*\nNo access is wider\.\n$/,
    "",
  ],
  ["policy diff signer.json wide.json --json", 3, /"wider":true.*"command":"tar x"/, ""],
  ["policy diff signer.json", 2, /^$/, "fix: broker-ctl policy diff signer.json NEW"],
  ["policy test", 0, /^ok {4}web01: uptime → allow\n1 passed, 0 failed\n$/, ""],
  [
    "policy test failing.jsonc",
    1,
    /^FAIL {2}web01: id → allow: expected allow.*deny by allowlist:no-match[^]*: unknown host "gone"\n0 passed, 2 failed/,
    "",
  ],
  [
    "policy test failing.jsonc --junit",
    1,
    /<testsuite name="policy" tests="2" failures="2">[^]*<failure message="expected/,
    "",
  ],
  ["policy test unknown.jsonc", 1, /^$/, "expect"],
  ["policy test missing.jsonc", 1, /^$/, "no such file"],
])("broker-ctl %s exits with %i", async (line, exit, out, err) => {
  await using folder = await createFolder();
  for (const [name, content] of Object.entries(FILES)) {
    await Deno.writeTextFile(`${folder.path}/${name}`, JSON.stringify(content));
  }
  const ran = await run(folder.path, ...words(line));
  assert.equal(ran.exit, exit, ran.err);
  assert.match(ran.out, out);
  assert.ok(err === "" ? ran.err === "" : ran.err.includes(err), ran.err);
});
