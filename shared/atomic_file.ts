/**
 * Replaces a file as one step: whoever reads it, also after a crash, finds the old content or the new one,
 * never a part.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { writeFileAtomic } from "@gateway/shared/atomic_file";
 *
 * async function saveConfig(path: string, text: string): Promise<void> {
 *   await writeFileAtomic(path, new TextEncoder().encode(text));
 * }
 * assert.equal(saveConfig.length, 2);
 * ```
 *
 * @module
 */
import { basename, dirname, join } from "node:path";
import { writeAll } from "./bytes.ts";
import { ifThere } from "./files.ts";
import { systemRandom } from "./random.ts";

/** How {@linkcode writeFileAtomic} creates the file. */
export interface WriteFileAtomicOptions {
  /** Permission bits; absent: those of the file replaced, or 0600 for a new one. */
  readonly mode?: number | undefined;
  /** The new file belongs to the owner and group of the one that it replaces, which may take a right to change them. */
  readonly keepOwner?: boolean | undefined;
}

/**
 * Writes a temporary file in the same folder, makes it durable and renames it over the path. A symbolic link
 * at the path is followed, so that its target is what changes. The folder needs write permission.
 *
 * @throws what the operating system reports; the old file is then still in place and the temporary one gone
 */
export async function writeFileAtomic(
  path: string,
  bytes: Uint8Array,
  options: WriteFileAtomicOptions = {},
): Promise<void> {
  const target = await resolveLink(path);
  const replaced = await ifThere(Deno.stat(target));
  const mode = options.mode ?? modeOf(replaced) ?? 0o600;
  const folder = dirname(target);
  const temporary = join(folder, `.${basename(target)}.${randomName()}`);
  try {
    await writeDurably(temporary, bytes, mode);
    if (options.keepOwner === true && replaced !== undefined) await giveTo(temporary, replaced);
    await Deno.rename(temporary, target);
  } catch (error) {
    await Deno.remove(temporary).catch(() => {});
    throw error;
  }
  using opened = await Deno.open(folder, { read: true });
  await opened.sync();
}

async function writeDurably(path: string, bytes: Uint8Array, mode: number): Promise<void> {
  // Created for the owner alone: others may be let in only when the content is whole.
  using file = await Deno.open(path, { write: true, createNew: true, mode: 0o600 });
  await writeAll(file, bytes);
  // Also past the umask, which holds back bits that were asked for.
  await Deno.chmod(path, mode);
  await file.sync();
}

function modeOf(file: Deno.FileInfo | undefined): number | undefined {
  const mode = file?.mode;
  return typeof mode === "number" ? mode & 0o7777 : undefined;
}

async function giveTo(path: string, { uid, gid, mode }: Deno.FileInfo): Promise<void> {
  const own = await Deno.stat(path);
  if (own.uid === uid && own.gid === gid) return;
  await Deno.chown(path, uid, gid);
  // chown(2) takes set-user-ID bits away.
  if (mode !== null) await Deno.chmod(path, mode & 0o7777);
}

async function resolveLink(path: string): Promise<string> {
  return await ifThere(Deno.realPath(path)) ?? path;
}

function randomName(): string {
  return systemRandom.bytes(12).toHex();
}
