/**
 * Replaces a file in one step: readers find the old content or the new one, also after a crash.
 *
 * @module
 */
import { open } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { ifThere } from "./files.ts";
import { systemRandom } from "../clock.ts";

/** An older temporary file was left by a killed process. */
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
  await removeLeft(target);
}

/** Removes the files that killed processes left of a file or directory. Failures are ignored: `doctor` shows the rest. */
export async function removeLeft(path: string): Promise<void> {
  try {
    const { mtime, isDirectory } = await Deno.lstat(path);
    const left = await findLeft(dirname(path), mtime?.getTime() ?? 0);
    const same = left.filter(({ of, isFolder }) => of === basename(path) && isFolder === isDirectory);
    for (const each of same) await Deno.remove(each.path, { recursive: isDirectory });
  } catch {
    // Nobody reads these files.
  }
}

/** A file, or a directory that was to get its name when complete. `of` is that name. */
interface Left {
  readonly path: string;
  readonly of: string;
  readonly isFolder: boolean;
}

/** The files that killed processes left in a directory. */
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
 * @throws {Deno.errors.PermissionDenied} for a link whose owner is neither root nor the owner of the target: root must
 * not write where another user's link leads (as `protected_symlinks` of Linux)
 */
export async function followLink(path: string): Promise<string> {
  const link = await ifThere(Deno.lstat(path));
  if (link?.isSymlink !== true) return path;
  const target = await Deno.realPath(path);
  if (link.uid === 0 || link.uid === (await Deno.lstat(target)).uid) return target;
  throw new Deno.errors.PermissionDenied("it is a symbolic link of another user's");
}
