import { resolve } from "node:path";
import { loadConfig } from "@gateway/shared/config";
import {
  findHostsWithoutKey,
  findMisplacedHosts,
  type SignerConfig,
  signerConfig,
  UNSUPPORTED_SIGNER_KEYS,
} from "@gateway/signer/config";
import { conflict, hintMissingConfig } from "./output.ts";
import { findPolicyProblems } from "@gateway/shared/policy";

/**
 * Loads the signer's config as the signer would.
 *
 * @param path as the operator named it; `signer.json` in the working folder when absent
 * @throws {AppError} `invalid_config` when it is broken
 */
export async function loadSignerFile(path: string | undefined, workingFolder: string): Promise<SignerConfig> {
  return await hintMissingConfig(() =>
    loadConfig({
      path: resolve(workingFolder, path ?? "signer.json"),
      what: "signer config",
      schema: signerConfig,
      unsupported: UNSUPPORTED_SIGNER_KEYS,
    })
  );
}

/**
 * Likewise, for a question about the hosts in it.
 *
 * @throws {AppError} `invalid_config` when it is broken, `conflict` when the hosts are in the signers' database
 */
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

/** Why the signer would not load a config whose keys are well-formed, each with the path of its key. */
export function findSignerProblems(config: SignerConfig): readonly string[] {
  const misplaced = findMisplacedHosts(config);
  return [
    ...findPolicyProblems(config),
    ...findHostsWithoutKey(config),
    ...misplaced === undefined ? [] : [misplaced],
  ];
}
