import { resolve } from "node:path";
import { loadConfig } from "@gateway/shared/config/load";
import { type SignerConfig, signerConfig, UNSUPPORTED_SIGNER_KEYS } from "@gateway/signer/config";
import { hintMissingConfig } from "./missing_config.ts";

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
