import assert from "node:assert/strict";
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
import { signBody } from "../bench/sign_request.ts";
import { availableKinds, startSshTarget } from "../ssh_target/target.ts";
import { type ServiceCommand, signerCommand } from "../stage/service_command.ts";
import { editConfig, HOST, type Stage } from "../stage/stage.ts";
import { withStage } from "../stage/with_stage.ts";

const ALLOW_ALL = { path: ["command_policies", "starter"], value: { mode: "off" } };
const RUN = {
  method: "POST",
  path: "/v1/ssh_run",
  body: { host: HOST, command: "echo $((6 * 7))" },
} as const;

/** Leads the connections to vault and sign-in service, whatever their names, to the fake that stands for both. */
function redirect(port: number): string {
  return `import { Agent } from "node:https";
import { connect } from "node:tls";
Agent.prototype.createConnection = (options) =>
  connect({ host: "127.0.0.1", port: ${port}, servername: options.servername ?? options.host, ca: ${
    JSON.stringify(ca)
  } });
`;
}

/** The signer under its own permissions, and the one to reach the fake. */
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

/** The vault's key, as a line for sshd. */
async function caLine(vault: FakeKeyVault): Promise<string> {
  const config = { type: "akv", vault_url: vault.url, key_name: "ssh-ca", key_version: "" } as const;
  const { agent, credential } = vault;
  const key = await loadAkvCaKey(config, { clock: systemClock, readEnv: () => undefined, agent, credential });
  return formatPublicKey(key.algorithm, key.publicKey);
}

/** Puts an sshd that trusts the vault's key in the place of the stage's host. */
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

/** What `ssh-keygen` prints with these arguments about a text in a file. */
async function sshKeygen(stage: Stage, flag: string, text: string): Promise<string> {
  const path = `${stage.init.folder}/shown.pub`;
  await Deno.writeTextFile(path, `${text}\n`);
  const { stdout } = await new Deno.Command("ssh-keygen", { args: [flag, "-f", path] }).output();
  return new TextDecoder().decode(stdout);
}

Deno.test.each<{ kind: FakeKeyKind; type: string; using: string }>([
  { kind: 2048, type: "RSA", using: "rsa-sha2-256" },
  { kind: "P-521", type: "ECDSA", using: "ecdsa-sha2-nistp521" },
])("a signer whose CA key of kind $kind is in a key vault issues certificates that sshd takes", {
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
    const reload = await operator.request({ method: "POST", path: "/v1/reload" });
    assert.equal(reload.status, 500, "a config whose key can't be had is not taken");
    const records = await Deno.readTextFile(stage.init.signer_audit_log);
    assert.match(records, /"outcome":"reload-failed"/);
    assert.doesNotMatch(records + signer.log, /vault\.test|fake-/, "neither addresses nor secrets");
  });
});
