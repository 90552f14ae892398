import { resolve } from "node:path";
import { AppError } from "@gateway/shared/errors";
import type { Random } from "@gateway/shared/clock";
import { readOperatorFile } from "../kit/files.ts";

interface BundlePassword {
  readonly text: string;
  /** Made here, so that somebody has to be told. */
  readonly isNew: boolean;
}

/** What can be guessed at for as long as one likes, by whoever has the file. */
const SHORTEST = 12;
const RANDOM_BYTES = 15;

/**
 * A password of one's own from a file's first line, or a fresh one of 120 bits.
 *
 * @throws {AppError} `not_found` or `invalid_config` for a file that can't be read, or a password that browsers would
 * read otherwise or that is short
 */
export async function bundlePassword(
  file: string | undefined,
  workingFolder: string,
  random: Random,
): Promise<BundlePassword> {
  if (file === undefined) {
    return { text: randomPassword(random), isNew: true };
  }
  const bytes = await readOperatorFile(resolve(workingFolder, file), "the password");
  const [text = ""] = new TextDecoder().decode(bytes).split(/\r?\n/);
  if (/^[\x20-\x7e]*$/.test(text) && text.length >= SHORTEST) return { text, isNew: false };
  throw new AppError(
    "invalid_config",
    `Cannot use the password: expected ${SHORTEST} or more printable ASCII characters in the first line`,
  );
}

/** A password of 120 bits. */
export function randomPassword(random: Random): string {
  return random.bytes(RANDOM_BYTES).toBase64({ alphabet: "base64url" });
}
