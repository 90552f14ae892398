/**
 * The directory of the run records. Only one server can use it at a time, because a second server would mark the runs
 * of the first as interrupted.
 */
import { ifThere, writeFileAtomic } from "@gateway/shared/files";
import { AppError, errorText } from "@gateway/shared/errors";
import { join } from "node:path";

const LOCK = ".lock";
const TAIL_BYTES = 16;

/** Access to the files of the directory by name. A name is never a path. */
export type RunDirectory = Awaited<ReturnType<typeof openRunDirectory>>;

/**
 * Opens a directory and creates it if necessary. Only its owner can read it, because records contain details of
 * incidents.
 */
export async function openRunDirectory(path: string) {
  try {
    await Deno.mkdir(path, { recursive: true, mode: 0o700 });
    return createDirectory(path, await takeLock(path));
  } catch (cause) {
    if (cause instanceof AppError) throw cause;
    const text = `Cannot use DATA_DIR ${JSON.stringify(path)}: ${errorText(cause)}`;
    throw new AppError("invalid_config", text, { cause });
  }
}

async function takeLock(path: string): Promise<Deno.FsFile> {
  const file = await Deno.open(join(path, LOCK), { write: true, create: true, mode: 0o600 });
  try {
    if (await file.tryLock(true)) return file;
  } catch (error) {
    file.close();
    throw error;
  }
  file.close();
  const problem = "another server is using it; stop it, or set another DATA_DIR";
  throw new AppError("invalid_config", `Cannot use DATA_DIR ${JSON.stringify(path)}: ${problem}`);
}

export function readRunDirectory(path: string) {
  return {
    async names(): Promise<readonly string[]> {
      const entries = await Array.fromAsync(Deno.readDir(path));
      return entries.filter(({ isFile }) => isFile).map(({ name }) => name);
    },
    /** Reads a file; `undefined` if it does not exist. */
    read: async (name: string): Promise<Uint8Array | undefined> =>
      await ifThere(Deno.readFile(fileIn(path, name))),
    /** Reads up to `headBytes` bytes of the beginning, and the last few bytes. */
    readEnds: async (name: string, headBytes: number) =>
      await ifThere(readEnds(fileIn(path, name), headBytes)),
  };
}

function fileIn(path: string, name: string): string {
  if (name === "" || name.includes("/") || name === "..") throw new TypeError("Not a file name");
  return join(path, name);
}

function createDirectory(path: string, lock: Deno.FsFile) {
  const at = (name: string) => fileIn(path, name);
  return {
    ...readRunDirectory(path),
    /** Writes durably and atomically. Even after a crash, a reader finds the old content or the new content. */
    write: (name: string, bytes: Uint8Array) => writeFileAtomic(at(name), bytes, { mode: 0o600 }),
    /** Appends bytes. They survive a crash of the process, but not of the machine. */
    append: (name: string, bytes: Uint8Array) =>
      Deno.writeFile(at(name), bytes, { append: true, mode: 0o600 }),
    remove: async (name: string) => await ifThere(Deno.remove(at(name))),
    close() {
      // A child process holds a copy of the descriptor, and so the lock, until its exec.
      lock.unlockSync();
      lock.close();
    },
  };
}

async function readEnds(path: string, headBytes: number): Promise<Record<"head" | "tail", Uint8Array>> {
  using file = await Deno.open(path);
  const head = new Uint8Array(headBytes);
  const length = await file.read(head) ?? 0;
  const { size } = await file.stat();
  const tail = new Uint8Array(Math.min(TAIL_BYTES, size));
  await file.seek(size - tail.length, Deno.SeekMode.Start);
  const tailLength = await file.read(tail) ?? 0;
  return { head: head.subarray(0, length), tail: tail.subarray(0, tailLength) };
}
