import { basename, dirname, join } from "node:path";
import { systemRandom } from "@gateway/shared/clock";
import { AppError, errorText } from "@gateway/shared/errors";
import {
  describeReadFailure,
  ifThere,
  readRegularFile,
  readRegularText,
  removeLeft,
  tryLockFile,
  writeFileAtomic,
} from "@gateway/shared/files";
import { quoteText } from "@gateway/shared/text";

const encoder = new TextEncoder();

/**
 * Reads a file that the operator named.
 *
 * @throws {AppError} `not_found` or `invalid_config`, with the path and why
 */
export async function readOperatorFile(path: string, what: string): Promise<Uint8Array<ArrayBuffer>> {
  try {
    return await readRegularFile(path);
  } catch (cause) {
    const code = cause instanceof Deno.errors.NotFound ? "not_found" : "invalid_config";
    throw new AppError(code, `Cannot read ${what} ${JSON.stringify(path)}: ${describeReadFailure(cause)}`, {
      cause,
    });
  }
}

/**
 * Makes a file as one step, and never takes the place of another.
 *
 * @throws {AppError} `conflict` when there is one
 */
export async function createFile(path: string, text: string | Uint8Array, mode: number): Promise<void> {
  const temporary = join(dirname(path), `.${basename(path)}.${systemRandom.bytes(12).toHex()}`);
  try {
    await writeFileAtomic(temporary, typeof text === "string" ? encoder.encode(text) : text, { mode });
    await Deno.link(temporary, path);
    await removeLeft(path);
  } catch (cause) {
    if (cause instanceof Deno.errors.AlreadyExists) {
      throw new AppError("conflict", `Cannot make ${quoteText(path)}: it exists`, { cause });
    }
    throw new AppError("internal", `Cannot make ${quoteText(path)}: ${errorText(cause)}`, { cause });
  } finally {
    await ifThere(Deno.remove(temporary));
  }
}

/** Replaces a file as one step, its owner and mode kept. @throws {AppError} `internal` when it can't be written */
export async function replaceFile(path: string, text: string): Promise<void> {
  try {
    await writeFileAtomic(path, encoder.encode(text), { keepOwner: true });
  } catch (cause) {
    throw new AppError("internal", `Cannot write ${quoteText(path)}: ${errorText(cause)}`, { cause });
  }
}

/**
 * Edits a file that others may be editing too: one at a time, from what it says then, whole or not at all.
 *
 * @param what the file is, for the message
 * @param edit gives the new text; it may throw when there is nothing to edit
 * @throws {AppError} `conflict` when somebody else edits it, or changed it meanwhile; `internal` when it can't be written
 */
export async function editLocked(
  path: string,
  what: string,
  edit: (text: string) => string,
): Promise<void> {
  const refuse = (why: string) =>
    new AppError("conflict", `${quoteText(path)} ${why}: nothing was written, try again`);
  using lock = await tryLockFile(path);
  if (lock === undefined) throw refuse("is being edited by somebody else");
  const text = await readRegularText(path);
  const edited = edit(text);
  if (edited === text) return;
  if (await readRegularText(path) !== text) throw refuse("was changed meanwhile");
  try {
    await writeFileAtomic(path, new TextEncoder().encode(edited), { keepOwner: true });
  } catch (cause) {
    throw new AppError("internal", `Cannot write ${what} ${quoteText(path)}: ${errorText(cause)}`, { cause });
  }
}
