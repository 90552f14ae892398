import { dirname, join, resolve } from "node:path";
import { systemClock } from "@gateway/shared/clock";
import { type ConfigKind, loadConfig } from "@gateway/shared/config";
import { ifThere } from "@gateway/shared/files";
import {
  findHostsWithoutKey,
  findMisplacedHosts,
  findUnreachableApprovals,
  type SignerConfig,
  signerConfig,
  UNSUPPORTED_SIGNER_KEYS,
} from "@gateway/signer/config";
import { badConfig, conflict, withHint } from "./output.ts";
import { quoteText } from "@gateway/shared/text";
import {
  type CompiledPolicy,
  compilePolicy,
  findPolicyProblems,
  type PolicyConfig,
} from "@gateway/shared/policy";
import { requirePolicyTests } from "@gateway/shared/policy/analysis";
import { compileApprovers } from "@gateway/shared/proofs";
import {
  type BrokerConfig,
  brokerConfig,
  localPolicy,
  UNSUPPORTED_BROKER_KEYS,
} from "@gateway/broker/config";
import { controlPlaneConfig } from "@gateway/control-plane/config";
import { clientConfig } from "./client_config.ts";

/** Loads the signer's config, by default `signer.json`. */
export async function loadSignerFile(path: string | undefined, workingFolder: string): Promise<SignerConfig> {
  const file = resolve(workingFolder, path ?? "signer.json");
  return await loadConfig({ path: file, ...CONFIG_KINDS.signer, unsupported: UNSUPPORTED_SIGNER_KEYS });
}

/** Loads a config; the result includes its path. */
export async function loadFile<T extends object>(path: string, kind: ConfigKind<T>) {
  return { path, config: await loadConfig({ path, ...kind }) };
}

/** Loads a config in the directory of the signer's config; undefined if there is none. */
export async function loadNeighbor<T extends object>(signerFile: string, name: string, kind: ConfigKind<T>) {
  const path = join(dirname(signerFile), name);
  return await ifThere(Deno.stat(path)) === undefined ? undefined : await loadFile(path, kind);
}

/** Loads the signer's config and its hosts. */
export async function loadSignerHosts(path: string | undefined, workingFolder: string) {
  const config = await loadSignerFile(path, workingFolder);
  if (config.policy_source === "file") return config;
  const problem = 'Cannot use the hosts of this file: they are in the database (policy_source "database")';
  throw conflict(problem, undefined, "broker-ctl policy export, or broker-ctl host list --remote");
}

/** Loads the hosts of a signer's config, or of the config of a local installation. */
export async function loadHosts(path: string | undefined, workingFolder: string): Promise<HostConfig> {
  const file = resolve(workingFolder, path ?? "signer.json");
  const broker = await loadLocalBroker(file);
  if (broker === undefined) return await loadSignerHosts(path, workingFolder);
  return localHosts(broker);
}

/** The hosts, the policy and the CA of a config, and keys that only a signer's config has. */
export type HostConfig =
  & Omit<PolicyConfig, "approvals">
  & Pick<SignerConfig, "ca_key" | "ca_keys">
  & Partial<
    Pick<SignerConfig, "approvals" | "krl_callers" | "policy_source" | "trusted_forwarders">
  >;

export function localHosts(broker: BrokerConfig): HostConfig {
  return { ...localPolicy(broker), ca_key: broker.ca_key, ca_keys: broker.ca_keys };
}

/** Loads the config of a local installation, which has no `server_cert`; undefined for any other file. */
export async function loadLocalBroker(path: string) {
  const broker = await loadConfig({ path, ...CONFIG_KINDS.broker }).catch(() => undefined);
  return broker?.server_cert === "" && broker.signer === undefined ? broker : undefined;
}

/** The problems for which the signer rejects a well-formed config, each with the path of its key. */
export function findSignerProblems(config: SignerConfig): readonly string[] {
  const misplaced = findMisplacedHosts(config);
  return [
    ...findPolicyProblems(config),
    ...findHostsWithoutKey(config),
    ...findUnreachableApprovals(config),
    ...findApproverProblems(config),
    ...misplaced === undefined ? [] : [misplaced],
  ];
}

function findApproverProblems({ approvals }: SignerConfig): readonly string[] {
  const compiled = approvals && compileApprovers(approvals);
  return compiled?.kind === "invalid" ? compiled.problems : [];
}

/**
 * Checks the expected decisions that a config requires, if it has the hosts.
 *
 * @throws {AppError} `invalid_config` if a test fails, or the tests cannot be loaded
 */
export async function requireTests({ policy_source, ...config }: HostConfig): Promise<void> {
  const { policy_tests: path = "" } = config;
  if (path === "" || policy_source === "database") return;
  const hint = `correct the change, or the cases in ${quoteText(path)}`;
  await withHint(
    { when: ({ code }) => code === "invalid_config", hint },
    () => requirePolicyTests(compileSigner(config), path, { load: loadConfig, clock: systemClock }),
  );
}

export function compileSigner(config: Parameters<typeof compilePolicy>[0]): CompiledPolicy {
  const compiled = compilePolicy(config);
  if (compiled.kind === "ok") return compiled.policy;
  throw badConfig(`Cannot use signer config: ${compiled.problems.join("\n  ")}`);
}

/** Loads and compiles the policy of a signer's config, or of the config of a local installation. */
export async function loadPolicy(path: string | undefined, workingFolder: string): Promise<CompiledPolicy> {
  return compileSigner(await loadHosts(path, workingFolder));
}

/** The checks of an installation's configs: the same as in the programs that load them. */
export const CONFIG_KINDS = {
  signer: { what: "signer config", schema: signerConfig },
  controlPlane: { what: "control plane config", schema: controlPlaneConfig },
  broker: { what: "broker config", schema: brokerConfig, unsupported: UNSUPPORTED_BROKER_KEYS },
  client: { what: "client config", schema: clientConfig },
};
