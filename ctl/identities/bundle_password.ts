import { resolve } from "node:path";
import type { Random } from "@gateway/shared/clock";
import { readOperatorFile } from "../kit/files.ts";
import { badConfig } from "../kit/output.ts";

/** An attacker who has the file can guess without limit. */
const SHORTEST = 12;
const RANDOM_BYTES = 15;

/**
 * The password in a file's first line, or a new one.
 *
 * @throws {AppError} `not_found` or `invalid_config` for an unreadable file, and for a password that is short or that
 * browsers encode differently
 */
export async function bundlePassword(file: string | undefined, workingFolder: string, random: Random) {
  if (file === undefined) return { text: randomPassword(random), isNew: true };
  const bytes = await readOperatorFile(resolve(workingFolder, file), "the password");
  const [text = ""] = new TextDecoder().decode(bytes).split(/\r?\n/);
  if (/^[\x20-\x7e]*$/.test(text) && text.length >= SHORTEST) return { text, isNew: false };
  throw badConfig(
    `Cannot use the password: expected ${SHORTEST} or more printable ASCII characters in the first line`,
  );
}

/** A password of 120 bits. */
export function randomPassword(random: Random): string {
  return random.bytes(RANDOM_BYTES).toBase64({ alphabet: "base64url" });
}
