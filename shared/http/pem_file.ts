/**
 * Certificates and keys from disk.
 *
 * ```ts ignore
 * import { readPemFile } from "./pem_file.ts";
 *
 * const cert = await readPemFile("server_cert", "/etc/gateway/pki/signer.crt");
 * ```
 *
 * @module
 */
import { AppError } from "../errors.ts";
import { readNamedText } from "../files.ts";
import { quoteText } from "../quote.ts";

/**
 * Reads a PEM file that a config names.
 *
 * @param key the config key that names it, for the message
 * @throws {AppError} `invalid_config` when the file can't be read or holds no PEM
 */
export async function readPemFile(key: string, path: string): Promise<string> {
  const text = await readNamedText(key, path);
  if (!text.includes("-----BEGIN ")) {
    throw new AppError("invalid_config", `Cannot use ${key} ${quoteText(path)}: not a PEM file`);
  }
  return text;
}
