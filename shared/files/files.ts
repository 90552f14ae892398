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
import type { Stats } from "node:fs";
import { constants, type FileHandle, open } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { AppError, errorText } from "../errors.ts";
import { describeExposure, type UsedFile } from "./exposed_files.ts";
import { quoteText } from "../text.ts";

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

/** Larger than what any file has that is read whole. */
const MAX_FILE_BYTES = 256 * 1024 * 1024;
/** Neither does a pipe's other end have to be there, nor becomes a terminal that of this process. */
const AT_ONCE = constants.O_NONBLOCK | constants.O_NOCTTY;
const CHUNK_BYTES = 65_536;

/** How a file is opened. */
export interface OpenFileOptions {
  readonly write?: boolean;
  /** Whether the last part of its path may be a symbolic link; true by default. */
  readonly followLinks?: boolean;
}

/** What the operating system calls it, as {@linkcode Deno.errors}. */
const ERRORS: Readonly<Record<string, new (message: string, options: ErrorOptions) => Error>> = {
  ENOENT: Deno.errors.NotFound,
  EACCES: Deno.errors.PermissionDenied,
  EPERM: Deno.errors.PermissionDenied,
  ENOTDIR: Deno.errors.NotADirectory,
  ELOOP: Deno.errors.FilesystemLoop,
};

/**
 * Opens a file that is there, in a folder that others may write: opening a pipe would wait for its other end for ever,
 * and a device may never end. What is open is looked at, not what has the name: that may be another one a moment later.
 * What the caller hands over itself (`<(zcat …)`) may be a pipe.
 *
 * @throws {AppError} `invalid_config` that says what it is instead; otherwise what the operating system reports, as one
 *   of {@linkcode Deno.errors}
 */
export async function openFile(
  path: string,
  { write = false, followLinks = true }: OpenFileOptions = {},
): Promise<FileHandle> {
  if (isHandedOver(path)) return await open(path);
  const flags = (write ? constants.O_RDWR : constants.O_RDONLY) | (followLinks ? 0 : constants.O_NOFOLLOW);
  const file = await open(path, flags | AT_ONCE).catch((cause) => {
    throw describeOpenFailure(cause);
  });
  try {
    refuseSpecial(await file.stat());
    return file;
  } catch (error) {
    await file.close();
    throw error;
  }
}

/** The bytes of a file from an offset on, by default from where it was read last; a chunk is valid until the next. */
export async function* readChunks(file: FileHandle, start?: number): AsyncGenerator<Uint8Array> {
  const buffer = new Uint8Array(CHUNK_BYTES);
  for (let offset = start;;) {
    const { bytesRead } = await file.read(buffer, 0, buffer.length, offset ?? null);
    if (bytesRead === 0) return;
    if (offset !== undefined) offset += bytesRead;
    yield buffer.subarray(0, bytesRead);
  }
}

/** As many bytes of a file from an offset on; fewer where it ends. */
export async function readAt(
  file: FileHandle,
  start: number,
  length: number,
): Promise<Uint8Array<ArrayBuffer>> {
  const bytes = new Uint8Array(length);
  let filled = 0;
  while (filled < length) {
    const { bytesRead } = await file.read(bytes, filled, length - filled, start + filled);
    if (bytesRead === 0) break;
    filled += bytesRead;
  }
  return bytes.subarray(0, filled);
}

/**
 * Reads a file of at most 256 MiB.
 *
 * @throws as {@linkcode openFile}
 */
export async function readRegularFile(path: string): Promise<Uint8Array<ArrayBuffer>> {
  await using file = await openFile(path);
  const { size } = await file.stat();
  if (size > MAX_FILE_BYTES) {
    throw new AppError("invalid_config", `it is larger than ${MAX_FILE_BYTES / 1024 / 1024} MiB`);
  }
  return new Uint8Array(await file.readFile());
}

/** Its text; bytes that are not UTF-8 become U+FFFD. @throws as {@linkcode readRegularFile} */
export async function readRegularText(path: string): Promise<string> {
  return new TextDecoder("utf-8", { ignoreBOM: true }).decode(await readRegularFile(path));
}

/** Whether it is what a shell has made for this process: `<(…)`, `/dev/stdin`. */
function isHandedOver(path: string): boolean {
  return /^\/dev\/(?:fd\/\d+|stdin)$/.test(path);
}

function refuseSpecial(file: Stats): void {
  if (file.isFile()) return;
  if (file.isDirectory()) throw new Deno.errors.IsADirectory("it is a folder, not a file");
  throw new AppError("invalid_config", `it is ${file.isFIFO() ? "a pipe" : "a device"}, not a file`);
}

function describeOpenFailure(cause: unknown): unknown {
  if (!(cause instanceof Error) || !("code" in cause)) return cause;
  // What no open() can reach.
  if (cause.code === "ENXIO") return new AppError("invalid_config", "it is a socket, not a file", { cause });
  const known = ERRORS[String(cause.code)];
  return known === undefined ? cause : new known(cause.message, { cause });
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
