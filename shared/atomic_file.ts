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
  const mode = options.mode ?? await modeOf(target) ?? 0o600;
  const folder = dirname(target);
  const temporary = join(folder, `.${basename(target)}.${randomName()}`);
  try {
    await writeDurably(temporary, bytes, mode);
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

async function modeOf(path: string): Promise<number | undefined> {
  const mode = (await ifThere(Deno.stat(path)))?.mode;
  return typeof mode === "number" ? mode & 0o7777 : undefined;
}

async function resolveLink(path: string): Promise<string> {
  return await ifThere(Deno.realPath(path)) ?? path;
}

function randomName(): string {
  return systemRandom.bytes(12).toHex();
}
