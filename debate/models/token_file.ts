/**
 * The access token that `debate login` has stored, in a file for its owner alone.
 *
 * @module
 */
import { writeFileAtomic } from "@gateway/shared/files";
import { AppError } from "@gateway/shared/errors";
import { dirname } from "node:path";

const MAX_LENGTH = 4096;

/**
 * The token; `undefined` when the file does not exist or is empty.
 *
 * @throws {AppError} `invalid_config` when the file cannot be read or holds something else
 */
export async function readTokenFile(path: string): Promise<string | undefined> {
  let text: string;
  try {
    text = (await Deno.readTextFile(path)).trim();
  } catch (cause) {
    if (cause instanceof Deno.errors.NotFound) return undefined;
    throw new AppError("invalid_config", `Cannot read the token file ${JSON.stringify(path)}`, { cause });
  }
  if (text === "") return undefined;
  if (!isToken(text)) {
    throw new AppError("invalid_config", `The token file ${JSON.stringify(path)} holds no token`);
  }
  return text;
}

/**
 * Stores a token. The folder is created if it is missing.
 *
 * @throws {AppError} `invalid_config` when the file cannot be written
 */
export async function writeTokenFile(path: string, token: string): Promise<void> {
  if (!isToken(token)) throw new TypeError("Not a token");
  try {
    await Deno.mkdir(dirname(path), { recursive: true, mode: 0o700 });
    await writeFileAtomic(path, new TextEncoder().encode(`${token}\n`), { mode: 0o600 });
  } catch (cause) {
    throw new AppError("invalid_config", `Cannot write the token file ${JSON.stringify(path)}`, { cause });
  }
}

/** Whether a text can be sent as a token. */
export function isToken(text: string): boolean {
  return text.length <= MAX_LENGTH && /^[\x21-\x7e]+$/.test(text);
}
