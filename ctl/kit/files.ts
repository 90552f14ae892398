import { basename, dirname, join } from "node:path";
import { systemRandom } from "@gateway/shared/clock";
import { AppError, errorText } from "@gateway/shared/errors";
import {
  describeReadFailure,
  ifThere,
  readRegularFile,
  readRegularText,
  removeLeftovers,
  tryLockFile,
  writeFileAtomic,
} from "@gateway/shared/files";
import { quoteText } from "@gateway/shared/text";
import { conflict, internal } from "./output.ts";

const encoder = new TextEncoder();

/** Reads a file that the operator named. */
export async function readOperatorFile(path: string, what: string): Promise<Uint8Array<ArrayBuffer>> {
  try {
    return await readRegularFile(path);
  } catch (cause) {
    const code = cause instanceof Deno.errors.NotFound ? "not_found" : "invalid_config";
    const message = `Cannot read ${what} ${JSON.stringify(path)}: ${describeReadFailure(cause)}`;
    throw new AppError(code, message, { cause });
  }
}

/** {@linkcode readOperatorFile}, as text. */
export async function readOperatorText(path: string, what: string): Promise<string> {
  return new TextDecoder().decode(await readOperatorFile(path, what));
}

/** Creates a file atomically. */
export async function createFile(path: string, text: string | Uint8Array, mode: number): Promise<void> {
  const temporary = join(dirname(path), `.${basename(path)}.${systemRandom.bytes(12).toHex()}`);
  try {
    await writeFileAtomic(temporary, typeof text === "string" ? encoder.encode(text) : text, { mode });
    await Deno.link(temporary, path);
    await removeLeftovers(path);
  } catch (cause) {
    if (cause instanceof Deno.errors.AlreadyExists) {
      throw conflict(`Cannot create ${quoteText(path)}: it exists`, cause);
    }
    throw internal(`Cannot create ${quoteText(path)}: ${errorText(cause)}`, cause);
  } finally {
    await ifThere(Deno.remove(temporary));
  }
}

/** Creates a directory atomically: `fill` writes to a staging directory next to it. A failure leaves nothing. */
export async function createFolder<T>(path: string, fill: (staging: string) => Promise<T>): Promise<T> {
  const staging = join(dirname(path), `.${basename(path)}.${systemRandom.bytes(8).toHex()}`);
  try {
    await Deno.mkdir(staging, { recursive: true, mode: 0o700 });
    const result = await fill(staging);
    await Deno.rename(staging, path);
    await removeLeftovers(path);
    return result;
  } catch (error) {
    await Deno.remove(staging, { recursive: true }).catch(() => {});
    throw error;
  }
}

/** Replaces a file atomically, and keeps its owner and mode. */
export async function replaceFile(path: string, text: string, what?: string): Promise<void> {
  try {
    await writeFileAtomic(path, encoder.encode(text), { keepOwner: true });
  } catch (cause) {
    const named = what === undefined ? quoteText(path) : `${what} ${quoteText(path)}`;
    throw internal(`Cannot write ${named}: ${errorText(cause)}`, cause);
  }
}

type Edited<T> = readonly [edited: string, result: T];

/**
 * Edits a file atomically under a lock, because another process may edit it at the same time.
 *
 * @param edit returns the new text and a result; throws if there is nothing to edit
 */
export async function editLocked<T>(
  path: string,
  what: string,
  edit: (text: string) => Edited<T> | Promise<Edited<T>>,
  read: () => Promise<string> = () => readRegularText(path),
): Promise<T> {
  const refuse = (why: string) => {
    const message = `Cannot edit ${quoteText(path)}: ${why}; nothing was written, try again`;
    return new AppError("conflict", message, { retryAfterSeconds: 1 });
  };
  using lock = await tryLockFile(path);
  if (lock === undefined) throw refuse("another process is editing it");
  const text = await read();
  const [edited, result] = await edit(text);
  if (edited === text) return result;
  if (await read() !== text) throw refuse("another process changed it");
  await replaceFile(path, edited, what);
  return result;
}
