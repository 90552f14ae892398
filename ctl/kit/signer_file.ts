import { resolve } from "node:path";
import { loadConfig } from "@gateway/shared/config";
import {
  findHostsWithoutKey,
  findMisplacedHosts,
  type SignerConfig,
  UNSUPPORTED_SIGNER_KEYS,
} from "@gateway/signer/config";
import { CONFIG_KINDS } from "./config_kinds.ts";
import { badConfig, conflict, hintMissingConfig } from "./output.ts";
import { type CompiledPolicy, compilePolicy, findPolicyProblems } from "@gateway/shared/policy";

/** Loads the signer's config, by default `signer.json`. */
export async function loadSignerFile(path: string | undefined, workingFolder: string): Promise<SignerConfig> {
  return await hintMissingConfig(() =>
    loadConfig({
      path: resolve(workingFolder, path ?? "signer.json"),
      ...CONFIG_KINDS.signer,
      unsupported: UNSUPPORTED_SIGNER_KEYS,
    })
  );
}

/** Loads the signer's config and its hosts. */
export async function loadSignerHosts(
  path: string | undefined,
  workingFolder: string,
): Promise<SignerConfig> {
  const config = await loadSignerFile(path, workingFolder);
  if (config.policy_source === "file") return config;
  throw conflict(
    'the hosts are in the database (policy_source "database"), not in this file: broker-ctl policy export shows them, ' +
      "broker-ctl host list --remote asks a signer",
  );
}

/** The problems of a well-formed config that keep the signer from loading it, each with the path of its key. */
export function findSignerProblems(config: SignerConfig): readonly string[] {
  const misplaced = findMisplacedHosts(config);
  return [
    ...findPolicyProblems(config),
    ...findHostsWithoutKey(config),
    ...misplaced === undefined ? [] : [misplaced],
  ];
}

export function compileSigner(config: Parameters<typeof compilePolicy>[0]): CompiledPolicy {
  const compiled = compilePolicy(config);
  if (compiled.kind === "ok") return compiled.policy;
  throw badConfig(`Cannot use signer config: ${compiled.problems.join("\n  ")}`);
}
