import assert from "node:assert/strict";
import { run } from "../adapters/ctl_fixture.ts";
import { CLEAN, createConfig, keyLine, script, scriptFor, STORE } from "./install_scene.ts";
import { FORMATS, freshFields, InstalledShim, NEXT_KEY, SIGNER_KEY } from "./installed_shim.ts";
import { ACCOUNT, SealedHost, sealTest } from "./sealed_host.ts";
import { envelopePublicKeyText } from "@gateway/shared/envelope";

const KEYS = "/etc/gateway/envelope_signers";
const SSHD_CONFIG = "/etc/ssh/sshd_config";
const BROKER_CTL = new URL("../../ctl/main.ts", import.meta.url).pathname;

sealTest("broker-ctl host install-shim prints a script that can run twice", async () => {
  await using host = await SealedHost.start();
  // Without host keys, sshd -T fails.
  await host.sh("ssh-keygen -A");
  const install = await script();
  for (const _ of ["first", "again"]) {
    const { code, stdout, stderr } = await host.sh("sh", install);
    assert.deepEqual({ code, stdout, stderr }, { code: 0, stdout: CLEAN, stderr: "" });
  }
  const { stdout } = await host.sh(
    `stat -c '%U:%G %a %n' /usr/local/bin/gateway-shim ${STORE} ${KEYS}; cat ${KEYS}; readlink /usr/bin/gateway-shim`,
  );
  assert.equal(
    stdout,
    [
      "root:root 755 /usr/local/bin/gateway-shim",
      `root:gateway-shim 1770 ${STORE}`,
      `root:root 644 ${KEYS}`,
      keyLine(SIGNER_KEY),
      "/usr/local/bin/gateway-shim",
      "",
    ].join("\n"),
  );
});

sealTest("broker-ctl host install-shim adds a key once, also after a line without a line feed", async () => {
  await using host = await SealedHost.start();
  await host.sh(`ssh-keygen -A; mkdir -p /etc/gateway; printf '%s' '${keyLine(SIGNER_KEY)}' >${KEYS}`);
  const both = `${keyLine(SIGNER_KEY)}\n${keyLine(NEXT_KEY)}\n`;
  for (const _ of ["first", "again"]) {
    const { code, stdout } = await host.sh("sh", await script("--add-pubkey", "next"));
    assert.deepEqual({ code, stdout }, { code: 0, stdout: CLEAN });
    assert.equal((await host.sh(`cat ${KEYS}`)).stdout, both);
  }
  assert.equal((await host.sh("sh", await script("--pubkey", "next"))).stdout, CLEAN);
  assert.equal((await host.sh(`cat ${KEYS}`)).stdout, `${keyLine(NEXT_KEY)}\n`);
});

sealTest(
  "broker-ctl host install-shim upgrades a host older than v3, whose commands still run",
  async () => {
    await using host = await SealedHost.start();
    await host.sh(`ssh-keygen -A; mkdir -p /etc/gateway`);
    assert.equal((await host.sh("sh", await script())).stdout, CLEAN);
    await host.sh(`sed -i s/,gateway-sealed-exec-v3// ${KEYS}`);
    assert.equal((await host.sh("sh", await script("--check"))).stdout, CLEAN);
    const v3 = { sealed_exec: true, envelope: "v3" };
    const early = await host.sh("sh", await scriptFor(v3, "--check"));
    assert.match(
      early.stdout,
      /problem: \S+ contains no key of format v3\n {4}fix: .*host install-shim NAME/,
    );
    assert.equal((await host.sh("sh", await script())).stdout, CLEAN, "the host's format is v2 still");
    assert.equal((await host.sh("sh", await scriptFor(v3, "--check"))).stdout, CLEAN);
    for (const format of [FORMATS.v2, FORMATS.v3]) {
      const envelope = format.seal(freshFields({ command: "cat; echo ran" }), SIGNER_KEY);
      const ran = await host.sh(`SSH_ORIGINAL_COMMAND=${envelope} gateway-shim web01`, "");
      assert.deepEqual([ran.code, ran.stdout], [0, "ran\n"], ran.stderr);
    }
  },
);

/** Damage to a host, the output of `--check`, and the fix. */
const PROBLEMS: readonly { readonly damage: string; readonly problem: RegExp; readonly fix: string }[] = [
  {
    damage: "chmod 775 /usr/local/bin/gateway-shim",
    problem: /gateway-shim is root:root 775, not root:root 755/,
    fix: "chmod 755 /usr/local/bin/gateway-shim",
  },
  {
    damage: `chown ${ACCOUNT} /usr/local/bin/gateway-shim`,
    problem: /gateway-shim is gw-sealed:root 755/,
    fix: "chown root /usr/local/bin/gateway-shim",
  },
  {
    damage: "echo >>/usr/local/bin/gateway-shim",
    problem: /has another version/,
    fix: "sed -i '$d' /usr/local/bin/gateway-shim",
  },
  {
    damage: "chmod 777 /etc/gateway",
    problem: /users other than root can replace files in \/etc\/gateway/,
    fix: "chmod 755 /etc/gateway",
  },
  {
    damage: `chmod 777 ${STORE}`,
    problem: /nonces is root:gateway-shim 777, not root:gateway-shim 1770/,
    fix: `chmod 1770 ${STORE}`,
  },
  { damage: `mv ${STORE} ${STORE}-`, problem: /nonces is missing/, fix: `mv ${STORE}- ${STORE}` },
  {
    damage: `chmod 600 ${KEYS}`,
    problem: /envelope_signers is root:root 600[^]*gw-sealed cannot read/,
    fix: `chmod 644 ${KEYS}`,
  },
  {
    damage: `echo x >>${KEYS}`,
    problem: /line 2 of \S+ is not a key: the shim rejects every command/,
    fix: `sed -i '$d' ${KEYS}`,
  },
  {
    damage: `cp ${KEYS} /var/gw-keys; : >${KEYS}`,
    problem: /contains no key of format v2/,
    fix: `cp /var/gw-keys ${KEYS}`,
  },
  {
    damage: "rm /usr/bin/gateway-shim",
    problem: /\/usr\/bin has no gateway-shim/,
    fix: "ln -s /usr/local/bin/gateway-shim /usr/bin/",
  },
  {
    damage: "echo x >/usr/local/sbin/gateway-shim",
    problem: /\/usr\/local\/sbin\/gateway-shim is another program/,
    fix: "rm /usr/local/sbin/gateway-shim",
  },
  {
    damage: `gpasswd -d ${ACCOUNT} gateway-shim`,
    problem: /gw-sealed cannot write to/,
    fix: `usermod -aG gateway-shim ${ACCOUNT}`,
  },
  {
    damage: `usermod -s /usr/sbin/nologin ${ACCOUNT}`,
    problem: /login shell of gw-sealed is \/usr\/sbin\/nologin/,
    fix: `usermod -s /bin/sh ${ACCOUNT}`,
  },
  {
    damage: `printf 'Match User ${ACCOUNT}\\n ForceCommand internal-sftp\\n' >>${SSHD_CONFIG}`,
    problem: /sshd has a ForceCommand for gw-sealed, which overrides the one in the certificate/,
    fix: `sed -i '/^Match User/,$d' ${SSHD_CONFIG}`,
  },
  {
    damage: `sed -i '1i AcceptEnv BASH_* LC_*' ${SSHD_CONFIG}`,
    problem: /variables from the broker: AcceptEnv BASH_\*\n/,
    fix: `sed -i 1d ${SSHD_CONFIG}`,
  },
  {
    damage: `sed -i '1i PermitUserEnvironment yes' ${SSHD_CONFIG}`,
    problem: /gw-sealed can set the environment/,
    fix: `sed -i 1d ${SSHD_CONFIG}`,
  },
  {
    damage: `sed -i '1i Nonsense yes' ${SSHD_CONFIG}`,
    problem: /sshd cannot read its configuration/,
    fix: `sed -i 1d ${SSHD_CONFIG}`,
  },
];

sealTest(
  "broker-ctl host install-shim --check prints each problem with its fix, and changes nothing",
  async () => {
    await using host = await SealedHost.start();
    const check = await script("--check");
    const before = await host.sh("sh", check);
    assert.equal(before.code, 1);
    assert.match(
      before.stdout,
      /problem: \/usr\/local\/bin\/gateway-shim is missing[^]*fix: .*host install-shim NAME/,
    );
    assert.notEqual((await host.sh(`test -e ${STORE}`)).code, 0, "--check has made something");
    await host.sh("ssh-keygen -A");
    assert.equal((await host.sh("sh", await script())).stdout, CLEAN);
    for (const { damage, problem, fix } of PROBLEMS) {
      assert.equal((await host.sh(damage)).code, 0, damage);
      const { code, stdout } = await host.sh("sh", check);
      assert.equal(code, 1, damage);
      assert.match(stdout, problem);
      await host.sh(fix);
      assert.equal((await host.sh("sh", check)).stdout, CLEAN, fix);
    }
    const nobody = await host.sh("sh", await script("--check", "--accounts", " "));
    assert.equal(nobody.code, 1);
    assert.match(nobody.stdout, /problem: no account was checked/);
    const missing = await host.sh("sh", await script("--check", "--accounts", "gw-nobody"));
    assert.match(missing.stdout, /problem: account gw-nobody does not exist/);
  },
);

Deno.test("broker-ctl host install-shim rejects a host with another shim", async () => {
  for (const other of [{ envelope: "v1", envelope_domain: "other-v1" }, { shim_command: "other-shim" }]) {
    await using folder = await createConfig({ sealed_exec: true, ...other });
    const { err, exit } = await run(folder.path, "host", "install-shim", "web01");
    assert.equal(exit, 1);
    assert.match(
      err,
      /Cannot install on host "web01": its envelope_domain "\S+" or shim_command "\S+" belongs to another build's shim/,
    );
  }
});

Deno.test.each([
  {
    name: "keys that are none",
    args: ["--pubkey", "signer.json"],
    error: /line 1 is not a key of format v2/,
  },
  {
    name: "two sets of keys",
    args: ["--pubkey", "next", "--add-pubkey", "next"],
    error: /Cannot use --pubkey with --add-pubkey: pass one/,
  },
  {
    name: "a verifier where none is needed",
    args: ["--verifier", "next"],
    error: /has no effect without envelope v1/,
  },
  { name: "another way", args: ["--over", "telnet"], error: /telnet/ },
  {
    name: "an option for a login",
    args: ["--over", "ssh", "--login", "a b"],
    error: /expected an account name/,
  },
])("broker-ctl host install-shim rejects $name", async ({ args, error }) => {
  await using folder = await createConfig();
  const { out, err, exit } = await run(folder.path, "host", "install-shim", "web01", ...args);
  assert.equal(out, "");
  assert.notEqual(exit, 0);
  assert.match(err, error);
});

Deno.test.each([
  {
    name: "a host that writes without end",
    ssh: "exec yes x",
    error: /The host sent more than 1000000 bytes/,
  },
  {
    name: "a host that is not there, in ssh's lines",
    ssh: "printf 'refused\\r\\n' >&2; exit 255",
    error: /^$/,
  },
  { name: "a host that does not read its input", ssh: "exec <&-; echo gone; exit 255", error: /^$/ },
])("broker-ctl host install-shim --over ssh exits with $name", async ({ ssh, error }) => {
  await using folder = await createConfig();
  const program = `${folder.path}/ssh`;
  await Deno.writeTextFile(program, `#!/bin/sh\n${ssh}\n`, { mode: 0o755 });
  const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: [
      ...["run", "--quiet", "--no-prompt", "--cached-only", "-P=broker-ctl", BROKER_CTL],
      ...["host", "install-shim", "web01", "--over", "ssh", "--config", `${folder.path}/signer.json`],
    ],
    env: { PATH: `${folder.path}:/usr/bin:/bin`, NO_COLOR: "1" },
  }).output();
  assert.equal(code, 1);
  assert.match(new TextDecoder().decode(stderr), error);
  assert.doesNotMatch(new TextDecoder().decode(stdout), /\\x0d/);
});

const V1 = { sealed_exec: true, envelope: "v1" };
const KEYS_V1 = FORMATS.v1.keyPath;
const VERIFIER = "/usr/local/bin/gateway-shim-verify.mjs";
const DENO = "/usr/local/bin/deno";
const MOUNT_DENO = `: >${DENO} && mount --bind '${Deno.execPath()}' ${DENO}`;

/** Damage to a host, the output of `--check`, and the fix. */
const PROBLEMS_V1: readonly { readonly damage: string; readonly problem: RegExp; readonly fix: string }[] = [
  {
    damage: `umount ${DENO} && rm ${DENO}`,
    problem: /format v1 needs Deno, and [^]*\n {4}fix: copy deno to/,
    fix: MOUNT_DENO,
  },
  {
    damage: `mv ${VERIFIER} ${VERIFIER}-`,
    problem: /gateway-shim-verify.mjs is missing[^]*the shim does not run as gw-sealed: .*verifier/,
    fix: `mv ${VERIFIER}- ${VERIFIER}`,
  },
  { damage: `chmod 666 ${VERIFIER}`, problem: /verify.mjs is root:root 666/, fix: `chmod 644 ${VERIFIER}` },
  {
    damage: `cp ${VERIFIER} /var/v; echo 'syntax error' >${VERIFIER}`,
    problem: /the shim does not run as gw-sealed: gateway-shim: refused: the verifier did not run/,
    fix: `cp /var/v ${VERIFIER}`,
  },
  {
    damage: `echo 'signer x' >>${KEYS_V1}`,
    problem: /line 2 of \S+ is not a key[^]*--over ssh --verifier gateway-shim-verify.mjs/,
    fix: `sed -i '$d' ${KEYS_V1}`,
  },
];

sealTest(
  "broker-ctl host install-shim installs the v1 shim with its verifier, and --check finds missing parts",
  async () => {
    await using bundled = await InstalledShim.create(FORMATS.v1);
    await bundled.bundle();
    const verifier = `${bundled.folder}/gateway-shim-verify.mjs`;
    await using host = await SealedHost.start();
    await host.sh("ssh-keygen -A");
    const install = await scriptFor(V1, "--verifier", verifier);
    await host.sh(`rm -f /usr/local/bin/deno /usr/bin/deno`);
    const without = await host.sh("sh", install);
    assert.deepEqual([without.code, without.stdout], [1, ""]);
    assert.match(without.stderr, /cannot install gateway-shim: format v1 needs Deno/);
    assert.equal((await host.sh(MOUNT_DENO)).code, 0);
    for (const _ of ["first", "again"]) {
      const { code, stdout, stderr } = await host.sh("sh", install);
      assert.deepEqual({ code, stdout, stderr }, { code: 0, stdout: CLEAN, stderr: "" });
    }
    const { stdout } = await host.sh(
      `stat -c '%U:%G %a %n' /usr/local/bin/gateway-shim ${VERIFIER} ${STORE}; cat ${KEYS_V1}`,
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
    for (const { damage, problem, fix } of PROBLEMS_V1) {
      assert.equal((await host.sh(damage)).code, 0, damage);
      const { code, stdout } = await host.sh("sh", check);
      assert.equal(code, 1, damage);
      assert.match(stdout, problem);
      await host.sh(fix);
      assert.equal((await host.sh("sh", check)).stdout, CLEAN, fix);
    }
  },
);

Deno.test("broker-ctl host install-shim needs --verifier to install v1, and not with --check", async () => {
  await using folder = await createConfig(V1);
  const { err, exit } = await run(folder.path, "host", "install-shim", "web01");
  assert.notEqual(exit, 0);
  assert.match(err, /A host with envelope v1 needs --verifier[^]*deno bundle/);
  assert.match(await scriptFor(V1, "--check"), /--format v1 --accounts/);
});
