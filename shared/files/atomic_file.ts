/**
 * Replaces a file as one step: whoever reads it, also after a crash, finds the old content or the new one,
 * never a part.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { writeFileAtomic } from "@gateway/shared/files";
 *
 * async function saveConfig(path: string, text: string): Promise<void> {
 *   await writeFileAtomic(path, new TextEncoder().encode(text));
 * }
 * assert.equal(saveConfig.length, 2);
 * ```
 *
 * @module
 */
import { open } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { ifThere } from "./files.ts";
import { systemRandom } from "../clock.ts";

const ROOT = 0;
/** A temporary file lives for moments; one that is so much older, in milliseconds, is of a process that was killed. */
const LEFT_MS = 10 * 60_000;
/** `.config.json.0123…`, and what was made to become such a file. */
const TEMPORARY = /^\.{1,2}(?<name>.+?)(?:\.[0-9a-f]{16}|\.[0-9a-f]{24}){1,2}$/;

/** How {@linkcode writeFileAtomic} creates the file. */
interface WriteFileAtomicOptions {
  /** Permission bits; absent: those of the file replaced, or 0600 for a new one. */
  readonly mode?: number | undefined;
  /** The new file belongs to the owner and group of the one that it replaces, which may take a right to change them. */
  readonly keepOwner?: boolean | undefined;
}

/**
 * Writes a temporary file in the same folder, makes it durable and renames it over the path. A symbolic link
 * at the path is followed, so that its target is what changes, unless somebody made it who is neither root nor the
 * target's owner. The folder needs write permission; who else may write there gains nothing by it: mode and owner are
 * set on the file that was opened, whatever lies under its name by then. What a process that was killed has left of
 * the same file goes.
 *
 * @throws what the operating system reports; the old file is then still in place and the temporary one gone
 */
export async function writeFileAtomic(
  path: string,
  bytes: Uint8Array,
  options: WriteFileAtomicOptions = {},
): Promise<void> {
  const target = await followLink(path);
  const replaced = await ifThere(Deno.lstat(target));
  const mode = options.mode ?? modeOf(replaced) ?? 0o600;
  const folder = dirname(target);
  const temporary = join(folder, `.${basename(target)}.${randomName()}`);
  const owner = options.keepOwner === true ? replaced : undefined;
  try {
    await writeDurably(temporary, bytes, { mode, owner });
    await Deno.rename(temporary, target);
  } catch (error) {
    await Deno.remove(temporary).catch(() => {});
    throw error;
  }
  using opened = await Deno.open(folder, { read: true });
  await opened.sync();
  await removeLeft(target);
}

/**
 * Removes what processes that were killed have left of a file or folder that was just written. It is litter, which
 * nobody reads: that it can't be seen or removed is no failure of the change.
 */
export async function removeLeft(path: string): Promise<void> {
  try {
    const { mtime, isDirectory } = await Deno.lstat(path);
    const left = await findLeft(dirname(path), mtime?.getTime() ?? 0);
    const same = left.filter(({ of, isFolder }) => of === basename(path) && isFolder === isDirectory);
    for (const each of same) await Deno.remove(each.path, { recursive: isDirectory });
  } catch {
    // doctor tells of it.
  }
}

/** What a process that was killed has left: a file, or a folder that was to get its name when all was in it. */
interface Left {
  readonly path: string;
  /** The name that it was to get. */
  readonly of: string;
  readonly isFolder: boolean;
}

/**
 * What was left in a folder by processes that were killed while they wrote.
 *
 * @param now milliseconds since the epoch
 * @throws what the operating system reports
 */
export async function findLeft(folder: string, now: number): Promise<readonly Left[]> {
  const found: Left[] = [];
  for await (const { name, isFile, isDirectory } of Deno.readDir(folder)) {
    const of = TEMPORARY.exec(name)?.groups?.["name"];
    if (!isFile && !isDirectory || of === undefined) continue;
    const path = join(folder, name);
    if (await lastWritten(path) < now - LEFT_MS) found.push({ path, of, isFolder: isDirectory });
  }
  return found;
}

/** When a file, or anything in a folder, was written last, in milliseconds since the epoch. */
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

async function writeDurably(
  path: string,
  bytes: Uint8Array,
  { mode, owner }: { readonly mode: number; readonly owner: Deno.FileInfo | undefined },
): Promise<void> {
  // Created for the owner alone: others may be let in only when the content is whole.
  const file = await open(path, "wx", 0o600);
  try {
    await file.writeFile(bytes);
    const own = await file.stat();
    const { uid, gid } = owner ?? own;
    if (uid !== null && gid !== null && (uid !== own.uid || gid !== own.gid)) await file.chown(uid, gid);
    // Also past the umask, which holds back bits that were asked for, and after chown(2), which takes some away.
    await file.chmod(mode);
    await file.sync();
  } finally {
    await file.close();
  }
}

function modeOf(file: Deno.FileInfo | undefined): number | undefined {
  const mode = file?.mode;
  return typeof mode === "number" ? mode & 0o7777 : undefined;
}

/**
 * Where a symbolic link leads; the path itself where there is none.
 *
 * @throws {Deno.errors.PermissionDenied} when somebody made it who is neither root nor the target's owner
 */
export async function followLink(path: string): Promise<string> {
  const link = await ifThere(Deno.lstat(path));
  if (link?.isSymlink !== true) return path;
  const target = await Deno.realPath(path);
  // As protected_symlinks of Linux does: root must not write where another user points.
  if (link.uid === ROOT || link.uid === (await Deno.lstat(target)).uid) return target;
  throw new Deno.errors.PermissionDenied("it is a symbolic link of another user's");
}

function randomName(): string {
  return systemRandom.bytes(12).toHex();
}
