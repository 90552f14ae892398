/**
 * One program at a time edits a config file: whoever else wants to, also the service that is configured by it, is
 * told so. An editor that knows nothing of the lock is noticed by what the file says.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { tryLockFile } from "@gateway/shared/files";
 *
 * async function edit(path: string): Promise<void> {
 *   using lock = await tryLockFile(path);
 *   if (lock === undefined) throw new Error("it is being edited");
 * }
 * assert.equal(edit.length, 1);
 * ```
 *
 * @module
 */
import { ifThere } from "./files.ts";

/**
 * Locks a file itself, so that no right to any other is needed. The operating system releases the lock when the process
 * ends, however it ends.
 *
 * @returns undefined when another holder has it, or put another file in its place while this one waited for its turn
 * @throws what the operating system reports
 */
export async function tryLockFile(path: string): Promise<Disposable | undefined> {
  const file = await Deno.open(path, { read: true });
  try {
    if (await file.tryLock(true) && await isAt(file, path)) return { [Symbol.dispose]: () => release(file) };
  } catch (error) {
    file.close();
    throw error;
  }
  file.close();
  return undefined;
}

/** A file that was replaced since it was opened is locked for nobody. */
async function isAt(file: Deno.FsFile, path: string): Promise<boolean> {
  const [opened, there] = [await file.stat(), await ifThere(Deno.stat(path))];
  return there !== undefined && opened.dev === there.dev && opened.ino === there.ino;
}

function release(file: Deno.FsFile): void {
  try {
    // A program that is being started at this moment holds a copy of the descriptor until its exec.
    file.unlockSync();
  } finally {
    file.close();
  }
}
