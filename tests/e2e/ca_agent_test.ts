import assert from "node:assert/strict";
import { signBody } from "../bench/sign_request.ts";
import { availableKinds, startSshTarget } from "../ssh_target/target.ts";
import { createToken, isTokenMissing } from "../stage/pkcs11_token.ts";
import { run } from "../stage/run.ts";
import { isAgentMissing as ignore, type RunningAgent, startAgent } from "../stage/ssh_agent.ts";
import { editConfig, HOST, post, type Stage } from "../stage/stage.ts";
import { withStage } from "../stage/with_stage.ts";
import { loadAkvCaKey } from "../../shared/ca/azure_key_vault.ts";
import { systemClock } from "@gateway/shared/clock";
import { formatPublicKey } from "@gateway/shared/ssh";
import {
  CLIENT_SECRET,
  type FakeKeyKind,
  type FakeKeyVault,
  startKeyVault,
} from "../adapters/fake_key_vault.ts";
import { ca } from "../adapters/mtls_fixture.ts";
import { type ServiceCommand, signerCommand } from "../stage/service_command.ts";

/** Names of the CA key types besides Ed25519 in ssh-keygen, pkcs11-tool and certificates. */
const KINDS = [
  { name: "rsa2048", file: ["rsa", "2048"], token: "rsa:2048", signs: "rsa-sha2-512", shown: "RSA" },
  {
    name: "ecdsa256",
    file: ["ecdsa", "256"],
    token: "EC:prime256v1",
    signs: "ecdsa-sha2-nistp256",
    shown: "ECDSA",
  },
  {
    name: "ecdsa384",
    file: ["ecdsa", "384"],
    token: "EC:secp384r1",
    signs: "ecdsa-sha2-nistp384",
    shown: "ECDSA",
  },
  {
    name: "ecdsa521",
    file: ["ecdsa", "521"],
    token: "EC:secp521r1",
    signs: "ecdsa-sha2-nistp521",
    shown: "ECDSA",
  },
] as const;

const noSshd = !availableKinds().includes("openssh");

Deno.test({
  name: "sshd accepts certificates of RSA and ECDSA CA keys in an ssh-agent",
  ignore: ignore || noSshd,
}, () => issueWithEach(agentWithFiles));

Deno.test({
  name: "sshd accepts certificates of RSA and ECDSA CA keys in a PKCS#11 token behind an ssh-agent",
  ignore: ignore || noSshd || isTokenMissing,
}, () => issueWithEach(agentWithToken));

async function issueWithEach(start: (folder: string) => Promise<RunningAgent>): Promise<void> {
  await withStage({}, async (stage) => {
    const { init } = stage;
    const folder = `${init.folder}/ca`;
    await Deno.mkdir(folder);
    await using agent = await start(folder);
    await Deno.remove(init.ssh_ca);
    const lines = await agent.list();
    assert.equal(lines.length, KINDS.length, lines.join("\n"));
    const sshdLog = await trustAll(stage, agent, lines);
    await stage.startSigner();
    await stage.startBroker();
    const signer = await stage.signerClient("broker");
    const broker = await stage.brokerClient();
    for (const { name, signs, shown } of KINDS) {
      const [, fingerprint] = (await run("ssh-keygen", ["-l", "-f", `${folder}/${name}.line`])).split(" ");
      const sign = { method: "POST", path: "/v1/sign", body: JSON.parse(signBody(name)) } as const;
      const signed = await signer.request(sign);
      assert.equal(signed.status, 200, signed.text);
      await Deno.writeTextFile(`${folder}/${name}-cert.pub`, JSON.parse(signed.text).certificate);
      const described = await run("ssh-keygen", ["-L", "-f", `${folder}/${name}-cert.pub`]);
      assert.ok(described.includes(`Signing CA: ${shown} ${fingerprint} (using ${signs})`), described);

      const body = { host: name, command: "uptime" };
      const ran = await post(broker, "/v1/ssh_run", body);
      assert.equal(ran.status, 200, ran.text);
      assert.match(ran.text, /load average/);
      const accepted = (await Deno.readTextFile(sshdLog)).split(/\r?\n/).filter((line) =>
        line.startsWith("Accepted publickey")
      );
      assert.ok(accepted.at(-1)?.endsWith(`CA ${shown} ${fingerprint}`), accepted.join("\n"));
    }
  });
}

async function agentWithFiles(folder: string): Promise<RunningAgent> {
  const agent = await startAgent(`${folder}/agent.sock`);
  for (const { name, file: [type, bits] } of KINDS) {
    const path = `${folder}/${name}`;
    await run("ssh-keygen", ["-q", "-t", type, "-b", bits, "-N", "", "-C", name, "-f", path]);
    await agent.add(path);
    await Deno.remove(path);
  }
  return agent;
}

async function agentWithToken(folder: string): Promise<RunningAgent> {
  const kinds = Object.fromEntries(KINDS.map(({ name, token }) => [name, token]));
  const token = await createToken(folder, kinds);
  const agent = await startAgent(`${folder}/agent.sock`, token);
  await agent.addToken(token);
  return agent;
}

/**
 * Replaces the stage's host with an sshd that trusts the agent's keys, under one name for each key. Each key,
 * named by its comment, is the CA of the group with the same name.
 *
 * @returns the path of sshd's log
 */
async function trustAll(stage: Stage, { socket }: RunningAgent, lines: readonly string[]): Promise<string> {
  const { init } = stage;
  const dir = `${init.folder}/trusting_ssh`;
  await Deno.mkdir(dir);
  const { user } = stage.target;
  const principals = { [user]: KINDS.map(({ name }) => `host:${name}`) };
  const caPublicKeyLine = lines.join("\n");
  const target = await startSshTarget({ caPublicKeyLine, principals, dir, forceKind: "openssh" });
  stage.defer(() => target.close());
  const addr = `127.0.0.1:${target.port}`;
  await editConfig(init.signer_config, [{ path: ["ca_key"] }]);
  for (const { name } of KINDS) {
    const path = `${init.folder}/ca/${name}.line`;
    await Deno.writeTextFile(path, `${lines.find((line) => line.endsWith(` ${name}`)) ?? ""}\n`);
    const key = { type: "agent", socket, public_key_path: path };
    const facts = { addr, user, host_key: target.hostKeyLine, principal: `host:${name}` };
    await editConfig(init.signer_config, [
      { path: ["ca_keys", name], value: key },
      { path: ["ca_keys", "_default"], value: key },
      { path: ["hosts", name], value: { ...facts, groups: [name, "local"] } },
    ]);
  }
  await editConfig(init.broker_config, [{ path: ["networks", -1], value: addr }]);
  return `${dir}/sshd.log`;
}

const ALLOW_ALL = { path: ["command_policies", "starter"], value: { mode: "off" } };
const RUN = {
  method: "POST",
  path: "/v1/ssh_run",
  body: { host: HOST, command: "echo $((6 * 7))" },
} as const;

/** Redirects all connections to the vault and the sign-in service to the fake that serves both. */
function redirect(port: number): string {
  return `import { Agent } from "node:https";
import { connect } from "node:tls";
Agent.prototype.createConnection = (options) =>
  connect({ host: "127.0.0.1", port: ${port}, servername: options.servername ?? options.host, ca: ${
    JSON.stringify(ca)
  } });
`;
}

/** The command of the signer with its own permissions and the permission to reach the fake. */
async function vaultSignerCommand(stage: Stage, { port }: FakeKeyVault): Promise<ServiceCommand> {
  const command = await signerCommand(stage.init.signer_config);
  const preload = `${stage.init.folder}/redirect.js`;
  await Deno.writeTextFile(preload, redirect(port));
  const args = command.args.map((arg) => arg.startsWith("--allow-net=") ? `${arg},127.0.0.1:${port}` : arg);
  return {
    ...command,
    args: ["run", `--preload=${preload}`, ...args.slice(1)],
    env: { CA_SECRET: CLIENT_SECRET },
  };
}

async function caLine(vault: FakeKeyVault): Promise<string> {
  const config = { type: "akv", vault_url: vault.url, key_name: "ssh-ca", key_version: "" } as const;
  const { agent, credential } = vault;
  const key = await loadAkvCaKey(config, { clock: systemClock, readEnv: () => undefined, agent, credential });
  return formatPublicKey(key.algorithm, key.publicKey);
}

/** Replaces the stage's host with an sshd that trusts the vault's key. */
async function trustVault(stage: Stage, caPublicKeyLine: string): Promise<void> {
  const dir = `${stage.init.folder}/vault_ssh`;
  await Deno.mkdir(dir);
  const { user } = stage.target;
  const principals = { [user]: [`host:${HOST}`] };
  const target = await startSshTarget({ caPublicKeyLine, principals, dir, forceKind: "openssh" });
  stage.defer(() => target.close());
  const addr = `127.0.0.1:${target.port}`;
  await editConfig(stage.init.signer_config, [
    { path: ["hosts", HOST, "addr"], value: addr },
    { path: ["hosts", HOST, "host_key"], value: target.hostKeyLine },
  ]);
  await editConfig(stage.init.broker_config, [{ path: ["networks", -1], value: addr }]);
}

async function sshKeygen(stage: Stage, flag: string, text: string): Promise<string> {
  const path = `${stage.init.folder}/shown.pub`;
  await Deno.writeTextFile(path, `${text}\n`);
  const { stdout } = await new Deno.Command("ssh-keygen", { args: [flag, "-f", path] }).output();
  return new TextDecoder().decode(stdout);
}

Deno.test.each<{ kind: FakeKeyKind; type: string; using: string }>([
  { kind: 2048, type: "RSA", using: "rsa-sha2-256" },
  { kind: "P-521", type: "ECDSA", using: "ecdsa-sha2-nistp521" },
])("a signer with a CA key of kind $kind in a key vault issues certificates that sshd accepts", {
  ignore: !availableKinds().includes("openssh"),
}, async ({ kind, type, using }) => {
  await using vault = await startKeyVault(kind);
  const key = {
    type: "akv",
    vault_url: "https://ca.vault.test",
    key_name: "ssh-ca",
    tenant_id: "tenant-1",
    client_id: "client-1",
    client_secret_env: "CA_SECRET",
  };
  const inVault = [{ path: ["ca_key"] }, { path: ["ca_keys", "_default"], value: key }];
  await withStage({ signer: [ALLOW_ALL, ...inVault] }, async (stage) => {
    await Deno.remove(stage.init.ssh_ca);
    const line = await caLine(vault);
    await trustVault(stage, line);
    const signer = await stage.start(await vaultSignerCommand(stage, vault));
    assert.doesNotMatch(signer.log, /for labs|fake-client-secret/);
    const client = await stage.signerClient("broker");
    const sign = { method: "POST", path: "/v1/sign", body: JSON.parse(signBody()) } as const;
    const shown = await sshKeygen(stage, "-L", JSON.parse((await client.request(sign)).text).certificate);
    const [fingerprint = ""] = /SHA256:\S+/.exec(await sshKeygen(stage, "-l", line)) ?? [];
    assert.ok(shown.includes(`Signing CA: ${type} ${fingerprint} (using ${using})`), shown);
    await stage.startBroker();
    const broker = await stage.brokerClient();
    const { status, text } = await broker.request(RUN);
    assert.equal(status, 200, text);
    assert.match(text, /42/);

    await vault[Symbol.asyncDispose]();
    assert.equal((await broker.request(RUN)).status, 502, "without the vault nothing is signed");
    const operator = await stage.signerClient("operator");
    const reload = await post(operator, "/v1/reload");
    assert.equal(reload.status, 500, "a config whose key can't be had is not taken");
    const records = await Deno.readTextFile(stage.init.signer_audit_log);
    assert.match(records, /"outcome":"reload-failed"/);
    assert.doesNotMatch(records + signer.log, /vault\.test|fake-/, "neither addresses nor secrets");
  });
});
