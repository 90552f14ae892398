/**
 * Files: bounded reads, atomic writes, locks, exposed modes.
 *
 * @module
 */

import { constants, type FileHandle, open } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { configError, errorText } from "../errors.ts";
import { quoteText } from "../text.ts";
import { systemRandom } from "../clock.ts";

/** Why a file could not be read or decoded. */
export function describeReadFailure(cause: unknown): string {
  // A strict TextDecoder throws a TypeError.
  if (cause instanceof TypeError) return "the file is not valid UTF-8";
  if (cause instanceof Deno.errors.NotFound) return "no such file";
  if (cause instanceof Deno.errors.IsADirectory) return "it is a directory, not a file";
  if (cause instanceof Deno.errors.PermissionDenied) return "its mode denies this user read access";
  if (cause instanceof Deno.errors.NotCapable) return "outside this process's permissions";
  return errorText(cause);
}

const MAX_FILE_BYTES = 256 * 1024 * 1024;
const CHUNK_BYTES = 65_536;

/** How a file is opened. By default its last path component may be a symbolic link. */
export interface OpenFileOptions {
  readonly write?: boolean;
  readonly followLinks?: boolean;
}

const ERRORS: Readonly<Record<string, new (message: string, options: ErrorOptions) => Error>> = {
  ENOENT: Deno.errors.NotFound,
  EACCES: Deno.errors.PermissionDenied,
  EPERM: Deno.errors.PermissionDenied,
  ENOTDIR: Deno.errors.NotADirectory,
  ELOOP: Deno.errors.FilesystemLoop,
};

/**
 * Opens an existing file, even in a directory where other users can write. Opening a pipe of another user, or
 * reading a device, could block forever, so the opened file is checked. Only a file that the caller hands
 * over (`<(zcat …)`) may be a pipe.
 *
 * @throws {AppError} `invalid_config` for other kinds of files; otherwise one of {@linkcode Deno.errors}
 */
export async function openFile(
  path: string,
  { write = false, followLinks = true }: OpenFileOptions = {},
): Promise<FileHandle> {
  if (/^\/dev\/(?:fd\/\d+|stdin)$/.test(path)) return await open(path);
  const flags = (write ? constants.O_RDWR : constants.O_RDONLY) | (followLinks ? 0 : constants.O_NOFOLLOW);
  // Without O_NOCTTY, a terminal would become the terminal of this process.
  const file = await open(path, flags | constants.O_NONBLOCK | constants.O_NOCTTY).catch((cause) => {
    throw describeOpenFailure(cause);
  });
  try {
    const found = await file.stat();
    if (found.isFile()) return file;
    if (found.isDirectory()) throw new Deno.errors.IsADirectory("it is a directory, not a file");
    throw configError(`it is ${found.isFIFO() ? "a pipe" : "a device"}, not a file`);
  } catch (error) {
    await file.close();
    throw error;
  }
}

function describeOpenFailure(cause: unknown): unknown {
  if (!(cause instanceof Error) || !("code" in cause)) return cause;
  if (cause.code === "ENXIO") return configError("it is a socket, not a file", cause);
  const known = ERRORS[String(cause.code)];
  return known === undefined ? cause : new known(cause.message, { cause });
}

/** The bytes from an offset, by default from the current position. A chunk is valid until the next one is read. */
export async function* readChunks(file: FileHandle, start?: number): AsyncGenerator<Uint8Array> {
  const buffer = new Uint8Array(CHUNK_BYTES);
  for (let offset = start;;) {
    const { bytesRead } = await file.read(buffer, 0, buffer.length, offset ?? null);
    if (bytesRead === 0) return;
    if (offset !== undefined) offset += bytesRead;
    yield buffer.subarray(0, bytesRead);
  }
}

/** This number of bytes from an offset; fewer at the end of the file. */
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

/** Reads a file of at most 256 MiB. @throws as {@linkcode openFile} does */
export async function readRegularFile(path: string): Promise<Uint8Array<ArrayBuffer>> {
  await using file = await openFile(path);
  const { size } = await file.stat();
  if (size > MAX_FILE_BYTES) {
    throw configError(`it is larger than ${MAX_FILE_BYTES / 1024 / 1024} MiB`);
  }
  return new Uint8Array(await file.readFile());
}

/** Reads the text of a file. Invalid UTF-8 becomes U+FFFD. @throws as {@linkcode openFile} does */
export async function readRegularText(path: string): Promise<string> {
  return new TextDecoder("utf-8", { ignoreBOM: true }).decode(await readRegularFile(path));
}

/**
 * Reads a file that the config names under `key`.
 *
 * @throws {AppError} `invalid_config` with the path and the reason
 */
export async function readNamedFile(key: string, path: string): Promise<Uint8Array<ArrayBuffer>> {
  try {
    return await readRegularFile(path);
  } catch (cause) {
    // The permissions of a process are derived from the config when the process starts.
    const fix = cause instanceof Deno.errors.NotCapable
      ? `; a new path under "${dirname(resolve(path))}" needs a restart`
      : "";
    throw configError(`Cannot read ${key} ${quoteText(path)}: ${describeReadFailure(cause)}${fix}`, cause);
  }
}

/** Reads the text of a file that the config names. @throws {AppError} as {@linkcode readNamedFile} does */
export async function readNamedText(key: string, path: string): Promise<string> {
  return new TextDecoder().decode(await readNamedFile(key, path));
}

/** The result of an access to a file; `undefined` if the file does not exist. */
export async function ifThere<T>(access: Promise<T>): Promise<T | undefined> {
  try {
    return await access;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
}

/**
 * Locks a file until the process ends or releases it, so that one program at a time edits it. The lock is on the file
 * itself, which needs no rights to another file.
 *
 * @returns `undefined` if another process has the lock, or has replaced the file
 */
export async function tryLockFile(path: string): Promise<Disposable | undefined> {
  const file = await Deno.open(path, { read: true });
  return await lockOf(file, async () => {
    const [opened, there] = [await file.stat(), await ifThere(Deno.stat(path))];
    return there !== undefined && opened.dev === there.dev && opened.ino === there.ino;
  });
}

/** Locks an open file if it passes a check; closes it with the lock, or without success. */
export async function lockOf(
  file: Deno.FsFile,
  check: () => Promise<boolean>,
): Promise<Disposable | undefined> {
  try {
    if (await file.tryLock(true) && await check()) {
      return {
        [Symbol.dispose]() {
          try {
            // Between fork and exec, a child has a copy of the descriptor, so closing alone would keep the lock.
            file.unlockSync();
          } finally {
            file.close();
          }
        },
      };
    }
  } catch (error) {
    file.close();
    throw error;
  }
  file.close();
  return undefined;
}

const MAY_WRITE = 0o022;

/**
 * The uses of a file: others must not read a `secret`; a group may read a `config`, and everyone may read a file that a
 * service relies on. A group may also read a secret of root's, because a service of another user could not otherwise.
 */
const USES = {
  secret: { fix: "fix: chmod 600", read: (uid: number | null) => uid === 0 ? 0o004 : 0o044 },
  config: { fix: "fix: chmod 640", read: () => 0o004 },
  relied_on: { fix: "fix: chmod go-w", read: () => 0 },
};

/** A file, the config key that names it (an empty path means no file), and its use. */
export interface UsedFile {
  readonly key: string;
  readonly path: string;
  readonly use: keyof typeof USES;
}

/** The mode with the file type, and the owner, as `stat` returns them. */
interface FileMode {
  readonly mode: number | null;
  readonly uid: number | null;
}

/** Describes a file that others may read or write; `undefined` if its mode is right. */
export function describeExposure({ key, path, use }: UsedFile, file: FileMode): string | undefined {
  const { mode, uid } = file;
  if (mode === null) return undefined;
  const may = [
    ...((mode & USES[use].read(uid)) === 0 ? [] : ["read"]),
    ...(mayOthersWrite(file) ? ["write"] : []),
  ].join(" and ");
  if (may === "") return undefined;
  return `${key} ${quoteText(path)}: other users may ${may} it (mode ${formatMode(mode)}); ${USES[use].fix}`;
}

/** Whether the group or other users may write to a file. */
export function mayOthersWrite({ mode }: FileMode): boolean {
  return mode !== null && (mode & MAY_WRITE) !== 0;
}

/** The permission bits in the notation of `chmod`. */
export function formatMode(mode: number): string {
  return (mode & 0o7777).toString(8).padStart(4, "0");
}

/** Describes the files that others may read or write. */
export async function findExposedFiles(files: readonly UsedFile[]): Promise<readonly string[]> {
  const found = await Promise.all(files.map(async (file) => {
    if (file.path === "") return [];
    try {
      return describeExposure(file, await Deno.stat(file.path)) ?? [];
    } catch {
      // Skip an unreadable file. The program that uses the file reports it.
      return [];
    }
  }));
  return found.flat();
}

/** A temporary file that is older was left by a killed process. */
const LEFT_MS = 10 * 60_000;
/** `.config.json.0123…` */
const TEMPORARY = /^\.{1,2}(?<name>.+?)(?:\.[0-9a-f]{16}|\.[0-9a-f]{24}){1,2}$/;

/**
 * Writes a temporary file in the same directory, makes it durable and renames it over the path. Mode and owner are set
 * by handle, because others may write to the directory. Files that killed processes left are removed.
 *
 * @param options.mode by default that of the replaced file, or 0600
 * @param options.keepOwner gives the file to the owner and group of the replaced one
 * @throws the system's error: the old file is then unchanged
 */
export async function writeFileAtomic(
  path: string,
  bytes: Uint8Array,
  options: { readonly mode?: number | undefined; readonly keepOwner?: boolean | undefined } = {},
): Promise<void> {
  const target = await followLink(path);
  const replaced = await ifThere(Deno.lstat(target));
  const replacedMode = replaced?.mode ?? undefined;
  const mode = options.mode ?? (replacedMode === undefined ? 0o600 : replacedMode & 0o7777);
  const folder = dirname(target);
  const temporary = join(folder, `.${basename(target)}.${systemRandom.bytes(12).toHex()}`);
  try {
    // For the owner only, until the content is complete.
    await using file = await open(temporary, "wx", 0o600);
    await file.writeFile(bytes);
    const own = await file.stat();
    const { uid, gid } = options.keepOwner === true && replaced !== undefined ? replaced : own;
    if (uid !== null && gid !== null && (uid !== own.uid || gid !== own.gid)) await file.chown(uid, gid);
    // Ignores the umask, and follows chown(2), which removes bits.
    await file.chmod(mode);
    await file.sync();
    await Deno.rename(temporary, target);
  } catch (error) {
    await Deno.remove(temporary).catch(() => {});
    throw error;
  }
  using opened = await Deno.open(folder, { read: true });
  await opened.sync();
  await removeLeftovers(target);
}

/** Removes the files that killed processes left of a file or directory. Failures are ignored: `doctor` shows the rest. */
export async function removeLeftovers(path: string): Promise<void> {
  try {
    const { mtime, isDirectory } = await Deno.lstat(path);
    const left = await findLeftovers(dirname(path), mtime?.getTime() ?? 0);
    const same = left.filter(({ of, isFolder }) => of === basename(path) && isFolder === isDirectory);
    for (const each of same) await Deno.remove(each.path, { recursive: isDirectory });
  } catch {
    // Ignore the failure, because nothing reads these files.
  }
}

/** A leftover file or directory. `of` is the name that it would have had when complete. */
interface LeftoverFile {
  readonly path: string;
  readonly of: string;
  readonly isFolder: boolean;
}

/** The files that killed processes left in a directory. */
export async function findLeftovers(folder: string, now: number): Promise<readonly LeftoverFile[]> {
  const found: LeftoverFile[] = [];
  for await (const { name, isFile, isDirectory } of Deno.readDir(folder)) {
    const of = TEMPORARY.exec(name)?.groups?.["name"];
    if (!isFile && !isDirectory || of === undefined) continue;
    const path = join(folder, name);
    if (await lastWritten(path) < now - LEFT_MS) found.push({ path, of, isFolder: isDirectory });
  }
  return found;
}

/** The last change of a file, or of anything in a directory. */
async function lastWritten(path: string): Promise<number> {
  const { mtime, isDirectory } = await Deno.lstat(path);
  let last = mtime?.getTime() ?? Infinity;
  if (isDirectory) {
    for await (const { name } of Deno.readDir(path)) {
      last = Math.max(last, await lastWritten(join(path, name)));
    }
  }
  return last;
}

/**
 * The target of a symbolic link; the path itself if it is no link.
 *
 * @throws {Deno.errors.PermissionDenied} for a link whose owner is neither root nor the owner of the target:
 * otherwise root would write to a file of another user's choice (as `protected_symlinks` of Linux prevents)
 */
export async function followLink(path: string): Promise<string> {
  const link = await ifThere(Deno.lstat(path));
  if (link?.isSymlink !== true) return path;
  const target = await Deno.realPath(path);
  if (link.uid === 0 || link.uid === (await Deno.lstat(target)).uid) return target;
  throw new Deno.errors.PermissionDenied("it is a symbolic link of another user's");
}
