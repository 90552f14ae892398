import assert from "node:assert/strict";
import { systemClock } from "@gateway/shared/clock";
import { createEphemeralKey } from "../../broker/ssh/login.ts";
import { runCommand } from "../../broker/ssh/run_command.ts";
import { PRINCIPAL } from "../ssh_target/certificates.ts";
import { startAgent } from "../stage/ssh_agent.ts";
import {
  FORMATS,
  HOST,
  InstalledShim,
  type RunResult,
  type ShimFormat,
  SIGNER_KEY,
} from "./installed_shim.ts";
import { ACCOUNT, SealedHost, sealTest } from "./sealed_host.ts";
import { SshClient, writeIdentity } from "./ssh_client.ts";
import type { SshTarget } from "../ssh_target/ssh_target.ts";
import { createFolder } from "../stage/folder.ts";

const ROOT = new URL("../../", import.meta.url).pathname;
const SEALED = { criticalOptions: { "force-command": `gateway-shim ${HOST}` } };
const EMPTY = {
  server_cert: "x",
  server_key: "x",
  client_ca: "x",
  ca_key: "x",
  audit_log: "x",
  audit_key: "x",
};

/** Installs the shim over a login as root with `broker-ctl`, like an operator. */
async function installOverSsh(host: SealedHost, target: SshTarget): Promise<RunResult> {
  await using folder = await createFolder();
  await using agent = await startAgent(`${folder.path}/agent`);
  await agent.add(await writeIdentity(folder.path, host.ca, { principals: ["root"] }));
  await Deno.writeFile(`${folder.path}/seed`, new Uint8Array(32).fill(1));
  const addr = `127.0.0.1:${target.port}`;
  const web01 = {
    addr,
    user: ACCOUNT,
    host_key: target.hostKeyLine,
    principal: PRINCIPAL,
    command_policy: {},
  };
  await Deno.writeTextFile(
    `${folder.path}/signer.json`,
    JSON.stringify({ ...EMPTY, envelope_key: `${folder.path}/seed`, hosts: { [HOST]: web01 } }),
  );
  const { code, signal, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: [
      ...["run", "--quiet", "--no-prompt", "--cached-only", "-P=broker-ctl", `${ROOT}ctl/main.ts`],
      ...["host", "install-shim", HOST, "--over", "ssh", "--config", `${folder.path}/signer.json`],
    ],
    env: { SSH_AUTH_SOCK: agent.socket, NO_COLOR: "1" },
  }).output();
  const decoder = new TextDecoder();
  return { code, signal, stdout: decoder.decode(stdout), stderr: decoder.decode(stderr) };
}

/** The shim of a format on a host with sshd, installed as in production. */
async function withHost(
  format: ShimFormat,
  test: (scene: {
    readonly host: SealedHost;
    readonly target: SshTarget;
    /** A connection whose certificate is locked to the shim. */
    readonly client: SshClient;
    /** Seals envelopes like the signer of the host. */
    readonly shim: InstalledShim;
  }) => Promise<void>,
): Promise<void> {
  await using host = await SealedHost.start();
  await host.sh("ssh-keygen -A");
  const target = await host.startSshd();
  try {
    if (format.name === "v1") await host.installV1(`${format.keyLine(SIGNER_KEY)}\n`);
    else {
      const installed = await installOverSsh(host, target);
      assert.deepEqual(installed, {
        code: 0,
        signal: null,
        stdout: "gateway-shim is installed: no problems found\n",
        stderr: "",
      });
    }
    await using client = await SshClient.logIn(target, host.ca, SEALED);
    await using shim = await InstalledShim.create(format);
    await test({ host, target, client, shim });
  } finally {
    await target.close();
  }
}

const STORE = "/var/lib/gateway-shim/nonces";

for (const format of [FORMATS.v2, FORMATS.v1]) {
  const { program } = format;

  sealTest(
    `sshd runs ${program} for whatever a session asks, and that what is sealed`,
    () =>
      withHost(format, async ({ host, client, shim }) => {
        const good = shim.seal({ command: "id -un; cat; exit 7" });
        const first = await client.exec(good, [], "input\n");
        assert.deepEqual(first, { code: 7, signal: null, stdout: `${ACCOUNT}\ninput\n`, stderr: "" });
        const again = await client.exec(good);
        assert.deepEqual([again.code, again.stdout], [126, ""]);
        assert.equal(again.stderr, "gateway-shim: refused: envelope already used (replay)\n");
        for (const command of [undefined, "id", "gateway-shim web01", "/bin/sh -c id"]) {
          const { code, stdout, stderr } = await client.exec(command);
          assert.deepEqual([code, stdout], [126, ""], `${command}`);
          assert.match(stderr, /^gateway-shim: refused: /);
        }
        const terminal = await client.exec("id", ["-tt"]);
        assert.deepEqual([terminal.code, /refused/.test(terminal.stdout)], [126, true]);
        const variable = await client.exec("id", ["-o", "SetEnv=PATH=/tmp SSH_ORIGINAL_COMMAND=x"]);
        assert.deepEqual([variable.code, variable.stdout], [126, ""]);
        const ended = await client.exec(shim.seal({ command: "kill -TERM $$" }));
        assert.notEqual(ended.code, 0);
        const shown = await client.exec(shim.seal({ command: "tr '\\0' '|' </proc/$PPID/cmdline; umask" }));
        // No process of the shim remains. The login shell remains if it does not exec its last command.
        assert.match(shown.stdout, /^(?:sh\|-c\|gateway-shim web01\||sshd: )/);
        const claims = (await host.sh(`ls ${STORE} | wc -l`)).stdout.trim();
        assert.equal(claims, "3");
      }),
  );

  sealTest(
    `${program} behind sshd refuses an account that can't read the keys or record the use`,
    () =>
      withHost(format, async ({ host, client, shim }) => {
        const envelope = shim.seal({ command: `echo done; cd ${STORE} && rm -rf "$(ls | head -n 1)"` });
        const refusals = [
          { path: STORE, mode: "755", usual: "1770", reason: `cannot record the envelope's use in ${STORE}` },
          { path: format.keyPath, mode: "600", usual: "644", reason: `cannot read ${format.keyPath}` },
        ];
        for (const { path, mode, usual, reason } of refusals) {
          await host.sh(`chmod ${mode} ${path}`);
          const { code, stdout, stderr } = await client.exec(envelope);
          const expected = { code: 126, stdout: "", stderr: `gateway-shim: refused: ${reason}\n` };
          assert.deepEqual({ code, stdout, stderr }, expected);
          await host.sh(`chmod ${usual} ${path}`);
        }
        // A nonce that another account has used stays used, regardless of this account.
        await host.sh(`mkdir ${STORE}/0${"0".repeat(31)}`);
        assert.equal((await client.exec(envelope)).stdout, "done\n");
        assert.match((await host.sh(`ls ${STORE}`)).stdout, /^0{32}$/m);
      }),
  );

  sealTest(
    `${program} behind sshd: a megabyte starts nothing`,
    () =>
      withHost(format, async ({ host, target, shim }) => {
        const key = createEphemeralKey();
        const hop = {
          name: HOST,
          addr: `127.0.0.1:${target.port}`,
          hostKey: target.hostKeyLine,
          user: ACCOUNT,
          certificate: await host.ca.certify(key.publicKeyLine, SEALED),
          key,
        };
        const command = shim.seal({ command: `echo ${"x".repeat(700_000)}` });
        assert.ok(command.length > 900_000);
        const result = await runCommand({ clock: systemClock, hops: [hop], command, pty: false })
          .catch((error: unknown) => error);
        assert.doesNotMatch(JSON.stringify(result), /"exitCode":0/);
        assert.equal((await host.sh(`ls ${STORE}`)).stdout, "");
      }),
  );
}
