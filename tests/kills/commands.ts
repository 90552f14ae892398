/** Commands of `broker-ctl` that write, each with the installation in which the test kills it. */
import { generateIdentity, identityToRecipient } from "age-encryption";
import { SAMPLE_HOST_KEY } from "@gateway/shared/testing";
import { join } from "node:path";
import type { SetUpFolder } from "./set_up_folder.ts";

export interface KilledCommand {
  readonly name: string;
  readonly args: readonly string[];
  /** Command lines that run before. */
  readonly before: readonly (readonly string[])[];
  /** Paths that are removed before. */
  readonly gone?: string;
  /** The error of a second run after a success (exit code 1). Absent: the second run must succeed. */
  readonly done?: RegExp;
  /** The command that repairs an incomplete state if a second run is rejected. */
  readonly mend?: readonly string[];
  /** The command keeps all earlier files under other names. */
  readonly keeps?: true;
}

const SIGNER = ["--config", "gateway/signer.json"] as const;
const INIT = ["init", "--dir", "gateway"] as const;
const HOST = ["--addr", "10.0.0.1:22", "--user", "deploy", "--host-key", SAMPLE_HOST_KEY] as const;
const ADD_HOST = ["host", "add", "--name", "web09", ...HOST, ...SIGNER] as const;
const SEAL_HOST = ["host", "seal", "web09", ...SIGNER] as const;
const ADD_CA_KEY = [
  "ca-keys",
  "add",
  "--name",
  "web",
  "--type",
  "pem",
  "--path",
  "gateway/pki/ssh_ca",
  ...SIGNER,
] as const;
const ADD_CLUSTER = [
  ...["cluster", "add", "prod", "--api-server", "https://10.0.0.5:6443", "--ca-cert", "pki/client_ca.crt"],
  ...["--token-file", "pki/ssh_ca", "--service-account", "gateway/agent", "--rule", "allow get pods web"],
  ...SIGNER,
] as const;
const ADD_AGENT = ["identity", "add", "agent", "bob", ...SIGNER] as const;

function addCaller(name: string): readonly string[] {
  return ["callers", "add", "--name", name, "--groups", "web", ...SIGNER];
}

/** All commands. The identity that opens backups is in the directory. */
export async function killedCommands(folder: string): Promise<readonly KilledCommand[]> {
  const identity = await generateIdentity();
  const recipient = ["--recipient", await identityToRecipient(identity)];
  await Deno.writeTextFile(join(folder, "identity.txt"), `${identity}\n`, { mode: 0o600 });
  const back = [INIT, ["backup", "backup", ...SIGNER, ...recipient]];
  const restore = ["restore", "backup", "--trust-unsigned", "--identity", join(folder, "identity.txt")];
  return [
    { name: "init", args: INIT, before: [], done: /exists/, mend: [...INIT, "--force"] },
    { name: "init --force", args: [...INIT, "--force"], before: [INIT], keeps: true },
    { name: "host add", args: ADD_HOST, before: [INIT], done: /it is there/ },
    {
      name: "host remove",
      args: ["host", "remove", "web09", ...SIGNER],
      before: [INIT, ADD_HOST],
      done: /no host/i,
    },
    { name: "host seal", args: SEAL_HOST, before: [INIT, ADD_HOST] },
    {
      name: "host unseal",
      args: ["host", "unseal", "web09", ...SIGNER],
      before: [INIT, ADD_HOST, SEAL_HOST],
    },
    { name: "callers add", args: addCaller("bob"), before: [INIT], done: /it is there/ },
    {
      name: "callers remove",
      args: ["callers", "remove", "bob", ...SIGNER],
      before: [INIT, addCaller("agent"), addCaller("bob")],
      done: /no caller/i,
    },
    { name: "ca-keys add", args: ADD_CA_KEY, before: [INIT], done: /it is there/ },
    {
      name: "ca-keys remove",
      args: ["ca-keys", "remove", "web", ...SIGNER],
      before: [INIT, ADD_CA_KEY],
      done: /no CA key/i,
    },
    { name: "cluster add", args: ADD_CLUSTER, before: [INIT], done: /it is there/ },
    {
      name: "cluster remove",
      args: ["cluster", "remove", "prod", ...SIGNER],
      before: [INIT, ADD_CLUSTER],
      done: /Cannot find cluster/,
    },
    { name: "identity add", args: ADD_AGENT, before: [INIT], done: /There is/ },
    {
      name: "identity renew",
      args: ["identity", "renew", "agent", "broker", "signer", ...SIGNER],
      before: [INIT],
    },
    {
      name: "identity revoke",
      args: ["identity", "revoke", "agent", ...SIGNER, "--client-config", "gateway/broker-ctl.json"],
      before: [INIT],
      // The signer that the command also notifies is not running.
      done: / on .*denied_callers/,
    },
    { name: "ca rotate begin", args: ["ca", "rotate", "begin", ...SIGNER], before: [INIT] },
    {
      name: "backup",
      args: ["backup", "backup", ...SIGNER, ...recipient],
      before: [INIT],
      done: /it is there/,
    },
    { name: "restore", args: restore, before: back, gone: "gateway" },
    { name: "restore --dir", args: [...restore, "--dir", "new"], before: back },
  ];
}

/** Creates the state before the command. @throws on failure */
export async function prepare({ before, gone }: KilledCommand, folder: SetUpFolder): Promise<void> {
  await folder.clear();
  for (const args of before) {
    const { success, said } = await folder.run(args);
    if (!success) throw new Error(`${args.join(" ")}: ${said}`);
  }
  if (gone !== undefined) await Deno.remove(join(folder.path, gone), { recursive: true });
}
