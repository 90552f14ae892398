/**
 * One writer per log: two of them would each continue the chain on their own.
 *
 * @module
 */
import { AppError } from "../errors.ts";
import { ifThere } from "../files/files.ts";
import { quoteText } from "../text.ts";

/**
 * Takes the lock `<log>.lock`, which stays in the folder: a lock on the log itself would move away with it
 * at a rotation. The operating system releases it when the process ends, however it ends.
 *
 * @throws {AppError} `invalid_config` when another holder has it
 */
export async function lockLog(logPath: string): Promise<Disposable> {
  const lock = await tryLockLog(logPath);
  if (lock !== undefined) return lock;
  throw new AppError(
    "invalid_config",
    `Cannot open audit log ${quoteText(logPath)}: it is in use by another process; each has to have an ` +
      "audit_log of its own",
  );
}

/** Likewise; undefined when another holder has it. */
export async function tryLockLog(logPath: string): Promise<Disposable | undefined> {
  const path = `${logPath}.lock`;
  // To read as well: a pipe that is opened so has its other end. What is there is opened without O_CREAT, which Linux
  // refuses root for users' files in a sticky folder of a group.
  const file = await ifThere(Deno.open(path, { read: true, write: true })) ??
    await Deno.open(path, { read: true, write: true, create: true, mode: 0o600 });
  try {
    const { isFile, isFifo } = await file.stat();
    if (!isFile) {
      const what = isFifo === true ? "a pipe" : "a device";
      throw new AppError(
        "invalid_config",
        `Cannot open ${quoteText(path)}: it is ${what}, not a file; remove it`,
      );
    }
    if (await file.tryLock(true)) return { [Symbol.dispose]: () => release(file) };
  } catch (error) {
    file.close();
    throw error;
  }
  file.close();
  return undefined;
}

function release(file: Deno.FsFile): void {
  try {
    // A program that is being started at this moment holds a copy of the descriptor until its exec, and with
    // it the lock: closing alone would not release it.
    file.unlockSync();
  } finally {
    file.close();
  }
}
