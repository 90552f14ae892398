import { resolve } from "node:path";
import { type AuditPublicKey, createAuditKey } from "@gateway/shared/audit";
import { readOperatorFile } from "../read_file.ts";

/**
 * The key that checks a log, from the seed file that the service signs with; undefined when none is named.
 *
 * @throws {AppError} `not_found` or `invalid_config` when the file can't be used
 */
export async function loadAuditKey(
  path: string | undefined,
  workingFolder: string,
): Promise<AuditPublicKey | undefined> {
  if (path === undefined) return undefined;
  return createAuditKey(await readOperatorFile(resolve(workingFolder, path), "audit key")).publicKey;
}
