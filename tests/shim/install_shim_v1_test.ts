import assert from "node:assert/strict";
import { envelopePublicKeyText } from "@gateway/shared/envelope";
import { run } from "../adapters/ctl_fixture.ts";
import { CLEAN, createConfig, NEEDS, scriptFor, STORE } from "./install_scene.ts";
import { FORMATS, freshFields, InstalledShim, SIGNER_KEY } from "./installed_shim.ts";
import { ACCOUNT, mayNotSeal, SealedHost } from "./sealed_host.ts";

const V1 = { sealed_exec: true, envelope: "v1" };
const KEYS = FORMATS.v1.keyPath;
const VERIFIER = "/usr/local/bin/gateway-shim-verify.mjs";
const DENO = "/usr/local/bin/deno";
const MOUNT_DENO = `: >${DENO} && mount --bind '${Deno.execPath()}' ${DENO}`;

/** What somebody does to a host, what `--check` says, and how it is mended. */
const PROBLEMS: readonly { readonly damage: string; readonly problem: RegExp; readonly mend: string }[] = [
  {
    damage: `umount ${DENO} && rm ${DENO}`,
    problem: /there is no deno in [^]*format v1 needs it\n {3}mend: install Deno there/,
    mend: MOUNT_DENO,
  },
  {
    damage: `mv ${VERIFIER} ${VERIFIER}-`,
    problem: /gateway-shim-verify.mjs is missing[^]*the shim does not run as gw-sealed: .*verifier/,
    mend: `mv ${VERIFIER}- ${VERIFIER}`,
  },
  { damage: `chmod 666 ${VERIFIER}`, problem: /verify.mjs is root:root 666/, mend: `chmod 644 ${VERIFIER}` },
  {
    damage: `cp ${VERIFIER} /var/v; echo 'syntax error' >${VERIFIER}`,
    problem: /the shim does not run as gw-sealed: gateway-shim: refused: the verifier did not run/,
    mend: `cp /var/v ${VERIFIER}`,
  },
  {
    damage: `echo 'signer x' >>${KEYS}`,
    problem: /line 2 of \S+ is not a key[^]*broker-ctl envelope pubkey prints/,
    mend: `sed -i '$d' ${KEYS}`,
  },
];

Deno.test({
  name:
    `broker-ctl host install-shim installs the shim of v1 with its verifier, and --check says what it lacks ${NEEDS}`,
  ignore: mayNotSeal,
  async fn() {
    await using bundled = await InstalledShim.create(FORMATS.v1);
    await bundled.bundle();
    const verifier = `${bundled.folder}/gateway-shim-verify.mjs`;
    await using host = await SealedHost.start();
    await host.sh("ssh-keygen -A");
    const install = await scriptFor(V1, "--verifier", verifier);
    await host.sh(`rm -f /usr/local/bin/deno /usr/bin/deno`);
    const without = await host.sh("sh", install);
    assert.deepEqual([without.code, without.stdout], [1, ""]);
    assert.match(without.stderr, /format v1 needs Deno on this host/);
    assert.equal((await host.sh(MOUNT_DENO)).code, 0);
    for (const _ of ["first", "again"]) {
      const { code, stdout, stderr } = await host.sh("sh", install);
      assert.deepEqual({ code, stdout, stderr }, { code: 0, stdout: CLEAN, stderr: "" });
    }
    const { stdout } = await host.sh(
      `stat -c '%U:%G %a %n' /usr/local/bin/gateway-shim ${VERIFIER} ${STORE}; cat ${KEYS}`,
    );
    assert.equal(
      stdout,
      [
        "root:root 755 /usr/local/bin/gateway-shim",
        `root:root 644 ${VERIFIER}`,
        `root:gateway-shim 1770 ${STORE}`,
        envelopePublicKeyText(SIGNER_KEY),
        "",
      ].join("\n"),
    );
    const envelope = FORMATS.v1.seal(freshFields({ command: "echo ran; exit 3" }), SIGNER_KEY);
    const start = `su -s /bin/sh ${ACCOUNT} -c "SSH_ORIGINAL_COMMAND='${envelope}' gateway-shim web01"`;
    const ran = await host.sh(start);
    assert.deepEqual(ran, { code: 3, stdout: "ran\n", stderr: "" });
    assert.match((await host.sh(start)).stderr, /replay/);

    const check = await scriptFor(V1, "--check", "--verifier", verifier);
    for (const { damage, problem, mend } of PROBLEMS) {
      assert.equal((await host.sh(damage)).code, 0, damage);
      const { code, stdout } = await host.sh("sh", check);
      assert.equal(code, 1, damage);
      assert.match(stdout, problem);
      await host.sh(mend);
      assert.equal((await host.sh("sh", check)).stdout, CLEAN, mend);
    }
  },
});

Deno.test("broker-ctl host install-shim wants the verifier of a host with envelope v1, and not to look", async () => {
  await using folder = await createConfig(V1);
  const { err, exit } = await run(folder.path, "host", "install-shim", "web01");
  assert.notEqual(exit, 0);
  assert.match(err, /A host with envelope v1 needs --verifier[^]*deno bundle/);
  assert.match(await scriptFor(V1, "--check"), /--format v1 --accounts/);
});
