/**
 * Files that may be absent or out of reach: what stands in the way, in the words that operators are told.
 *
 * ```ts ignore
 * import { ifThere, readNamedFile } from "@gateway/shared/files";
 *
 * const seed = await readNamedFile("audit_key", "/etc/gateway/audit.seed");
 * const isOld = await ifThere(Deno.stat("/etc/gateway/backup")) !== undefined;
 * ```
 *
 * @module
 */
import { dirname, resolve } from "node:path";
import { AppError, errorText } from "./errors.ts";
import { describeExposure, type UsedFile } from "./exposed_files.ts";
import { quoteText } from "./quote.ts";

/** Why a file could not be read, or its bytes not be taken for text. */
export function describeReadFailure(cause: unknown): string {
  // What a strict TextDecoder throws.
  if (cause instanceof TypeError) return "the file is not valid UTF-8";
  if (cause instanceof Deno.errors.NotFound) return "no such file";
  if (cause instanceof Deno.errors.IsADirectory) return "it is a folder, not a file";
  if (cause instanceof Deno.errors.PermissionDenied) return "the file's mode does not let this user read it";
  if (cause instanceof Deno.errors.NotCapable) return "outside this process's permissions";
  return errorText(cause);
}

/**
 * Reads a regular file. Opening a pipe would wait for its other end for ever, and a device may never end. What the
 * caller hands over itself (`<(zcat …)`, `/dev/stdin`) may be one.
 *
 * @throws {AppError} `invalid_config` that says what it is instead; otherwise what the operating system reports
 */
export async function readRegularFile(path: string): Promise<Uint8Array<ArrayBuffer>> {
  const special = isHandedOver(path) ? undefined : nameSpecial(await Deno.stat(path));
  if (special !== undefined) throw new AppError("invalid_config", `it is ${special}, not a file`);
  return await Deno.readFile(path);
}

/** Its text; bytes that are not UTF-8 become U+FFFD. @throws as {@linkcode readRegularFile} */
export async function readRegularText(path: string): Promise<string> {
  return new TextDecoder("utf-8", { ignoreBOM: true }).decode(await readRegularFile(path));
}

/** Whether it is what a shell has made for this process: `<(…)`, `/dev/stdin`. */
function isHandedOver(path: string): boolean {
  return /^\/(?:dev|proc)\//.test(path);
}

function nameSpecial(file: Deno.FileInfo): string | undefined {
  if (file.isFifo === true) return "a pipe";
  if (file.isSocket === true) return "a socket";
  return file.isCharDevice === true || file.isBlockDevice === true ? "a device" : undefined;
}

/**
 * Reads a file that a config names.
 *
 * @param key the config key that names it, for the message
 * @throws {AppError} `invalid_config` with the path and why
 */
export async function readNamedFile(key: string, path: string): Promise<Uint8Array<ArrayBuffer>> {
  try {
    return await readRegularFile(path);
  } catch (cause) {
    // The permissions come from the config that the process was started with.
    const mend = cause instanceof Deno.errors.NotCapable
      ? `; a new path under "${dirname(resolve(path))}" needs a restart`
      : "";
    const message = `Cannot read ${key} ${quoteText(path)}: ${describeReadFailure(cause)}${mend}`;
    throw new AppError("invalid_config", message, { cause });
  }
}

/** The text of such a file; bytes that are not UTF-8 become U+FFFD. @throws {AppError} as {@linkcode readNamedFile} */
export async function readNamedText(key: string, path: string): Promise<string> {
  return new TextDecoder().decode(await readNamedFile(key, path));
}

/**
 * Opens a file in a folder that others may write: opening a pipe would wait for its other end, for ever. What the caller
 * hands over itself (`<(zcat …)`) may be one.
 *
 * @throws {AppError} `invalid_config` for a pipe
 */
export async function openNoPipe(path: string, options: Deno.OpenOptions): Promise<Deno.FsFile> {
  if (!isHandedOver(path) && (await Deno.stat(path)).isFifo === true) {
    throw new AppError(
      "invalid_config",
      `Cannot open ${quoteText(path)}: it is a pipe, not a file; remove it`,
    );
  }
  return await Deno.open(path, options);
}

/** What an access to a file gives; `undefined` when there is no such file. Every other failure is passed on. */
export async function ifThere<T>(access: Promise<T>): Promise<T | undefined> {
  try {
    return await access;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
}

/** What to tell an operator of those files that other users may read or write; an empty path stands for no file. */
export async function findExposedFiles(files: readonly UsedFile[]): Promise<readonly string[]> {
  const found = await Promise.all(files.map(async (file) => {
    if (file.path === "") return [];
    try {
      const exposure = describeExposure(file, await Deno.stat(file.path));
      return exposure === undefined ? [] : [exposure];
    } catch {
      // Not there yet, or out of reach: whoever uses the file says so.
      return [];
    }
  }));
  return found.flat();
}
