/**
 * Several signers or control planes that share a database, as separate processes with their own permissions.
 */
import { systemClock } from "@gateway/shared/clock";
import { JsonClient } from "@gateway/shared/http";
import { formatPublicKey, SshWriter } from "@gateway/shared/ssh";
import { freePort } from "../stage/free_port.ts";
import { controlPlaneCommand, signerCommand } from "../stage/service_command.ts";
import type { ServiceProcess } from "../stage/service_process.ts";
import { type ConfigEdit, editConfig, HOST, type Stage, type StageIdentity } from "../stage/stage.ts";

export interface Member {
  readonly service: "signer" | "control-plane";
  readonly name: string;
  readonly configPath: string;
  readonly auditLog: string;
  readonly auditKey: string;
  readonly listen: string;
  readonly monitor: string;
}

/** Writes the config of another signer or control plane of a stage, with its own audit log and seed. */
export async function addMember(
  stage: Stage,
  { name, state_db, edits = [], service = "signer" }: {
    readonly service?: Member["service"];
    readonly name: string;
    readonly state_db: string;
    readonly edits?: readonly ConfigEdit[];
  },
): Promise<Member> {
  const folder = `${stage.init.folder}/${name}`;
  await Deno.mkdir(`${folder}/log`, { recursive: true, mode: 0o700 });
  await Deno.writeFile(`${folder}/audit.seed`, crypto.getRandomValues(new Uint8Array(32)), { mode: 0o600 });
  const [listen, monitor] = [`127.0.0.1:${freePort()}`, `127.0.0.1:${freePort()}`];
  const configPath = `${folder}/${service}.json`;
  const { signer_config, control_plane_config } = stage.init;
  await Deno.copyFile(service === "signer" ? signer_config : control_plane_config, configPath);
  const auditLog = `${folder}/log/audit.log`;
  await editConfig(configPath, [
    { path: ["instance"], value: name },
    { path: ["state_db"], value: state_db },
    { path: ["listen"], value: listen },
    { path: ["monitor_listen"], value: monitor },
    { path: ["audit_log"], value: auditLog },
    { path: ["audit_key"], value: `${folder}/audit.seed` },
    ...edits,
  ]);
  return { service, name, configPath, auditLog, auditKey: `${folder}/audit.seed`, listen, monitor };
}

export async function startMember(
  stage: Stage,
  { service, configPath }: Member,
  env: Readonly<Record<string, string>> = {},
): Promise<ServiceProcess> {
  const command = service === "signer" ? signerCommand : controlPlaneCommand;
  return await stage.start({ ...await command(configPath), env });
}

export async function readiness({ monitor }: Member): Promise<string> {
  const response = await fetch(`http://${monitor}/readyz`);
  return `${response.status} ${(await response.text()).trim()}`;
}

/** The certificate and key of an identity, and the CA that it trusts. */
export async function tlsOf({ init }: Stage, identity: StageIdentity) {
  const { cert, key } = init[identity];
  const [pem, keyPem, ca] = await Promise.all(
    [cert, key, init.mtls_ca].map((path) => Deno.readTextFile(path)),
  );
  return { cert: pem!, key: keyPem!, ca: ca! };
}

export async function clientOf(
  stage: Stage,
  { listen }: Pick<Member, "listen">,
  identity: StageIdentity,
  timeoutMs = 10_000,
): Promise<JsonClient> {
  const client = new JsonClient({
    clock: systemClock,
    baseUrl: `https://${listen}`,
    ...await tlsOf(stage, identity),
    timeoutMs,
  });
  stage.defer(() => client.close());
  return client;
}

export const SIGN = {
  method: "POST",
  path: "/v1/sign",
  body: {
    host: HOST,
    role: "target",
    purpose: "oneshot",
    command: "uptime",
    public_key: publicKeyLine(),
  },
} as const;

function publicKeyLine(): string {
  const writer = new SshWriter();
  writer.text("ssh-ed25519");
  writer.string(new Uint8Array(32).fill(3));
  return formatPublicKey("ssh-ed25519", writer.bytes());
}
