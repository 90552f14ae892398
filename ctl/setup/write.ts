import { dirname, join } from "node:path";
import type { Clock, Random } from "@gateway/shared/clock";
import { ifThere, tryLockFile } from "@gateway/shared/files";
import { AppError, errorText } from "@gateway/shared/errors";
import { checkFolder } from "./check_folder.ts";
import { SET_UP_ENTRIES } from "./layout.ts";
import type { PlannedEntry } from "./plan.ts";

/** How {@linkcode writeSetUp} treats what is there. */
interface WriteOptions {
  /** The set-up's folder, absolute; made when it is not there. */
  readonly folder: string;
  /** Move an existing set-up aside instead of refusing. */
  readonly force: boolean;
  readonly clock: Clock;
  readonly random: Random;
}

/** What {@linkcode writeSetUp} did. */
interface WriteResult {
  /** The folder that holds the former set-up, when there was one. */
  readonly backup: string | undefined;
}

const FOLDER_MODE = 0o700;

/** The first thing in a folder that belongs to a set-up, also a dangling link. */
async function findSetUp(folder: string): Promise<string | undefined> {
  for (const name of SET_UP_ENTRIES) {
    if (await exists(join(folder, name))) return name;
  }
  return undefined;
}

/**
 * Refuses a folder that has a set-up, or that is not safe to have one.
 *
 * @throws {AppError} `conflict`, naming what is there, or `invalid_request` as {@linkcode checkFolder} does
 */
export async function checkFree({ folder, force }: Pick<WriteOptions, "folder" | "force">): Promise<void> {
  await checkFolder(folder);
  const name = force ? undefined : await findSetUp(folder);
  if (name !== undefined) {
    throw new AppError("conflict", `Cannot set up ${JSON.stringify(folder)}: ${JSON.stringify(name)} exists`);
  }
}

/**
 * Writes a set-up: first aside, in a folder that only the owner can enter; then what was there before is moved
 * to a backup, and the new entries take its place, the last planned one last. A failure before that leaves
 * everything as it was.
 *
 * @throws {AppError} `conflict` when there is a set-up and `force` is not given, or another init is at it;
 * `invalid_request` for a folder that somebody else has a hand in
 */
export async function writeSetUp(plan: readonly PlannedEntry[], options: WriteOptions): Promise<WriteResult> {
  const { folder, random } = options;
  await explaining(folder, () => createFolder(folder));
  using _lock = await lockOrRefuse(folder);
  // Once more: what was not there before may have been made by somebody else meanwhile.
  await checkFree(options);
  const staging = join(folder, `.init.${random.bytes(8).toHex()}`);
  try {
    await explaining(folder, async () => {
      await createPrivateFolder(staging);
      for (const entry of plan) await writeEntry(staging, entry);
    });
    const backup = options.force ? await moveAside(options) : undefined;
    await moveIn(plan, staging, { folder, backup });
    return { backup };
  } finally {
    await ifThere(Deno.remove(staging, { recursive: true }));
  }
}

/** Two that move their entries in at once would leave keys of the one and configs of the other. */
async function lockOrRefuse(folder: string): Promise<Disposable> {
  const lock = await tryLockFile(folder);
  if (lock !== undefined) return lock;
  const message = `Cannot set up ${JSON.stringify(folder)}: another init is at it; try again`;
  throw new AppError("conflict", message, { retryAfterSeconds: 1 });
}

async function explaining(folder: string, act: () => Promise<void>): Promise<void> {
  try {
    await act();
  } catch (cause) {
    const message = `Cannot set up ${JSON.stringify(folder)}: ${errorText(cause)}; nothing of it is there`;
    throw new AppError("internal", message, { cause });
  }
}

async function moveIn(
  plan: readonly PlannedEntry[],
  staging: string,
  { folder, backup }: { readonly folder: string; readonly backup: string | undefined },
): Promise<void> {
  try {
    for (const { path } of plan.filter((entry) => !entry.path.includes("/"))) {
      await Deno.rename(join(staging, path), join(folder, path));
    }
  } catch (cause) {
    const former = backup === undefined ? "" : `; the former set-up is in ${JSON.stringify(backup)}`;
    throw new AppError(
      "internal",
      `Cannot finish set-up in ${JSON.stringify(folder)}: ${errorText(cause)}${former}`,
      { cause },
    );
  }
}

async function createFolder(folder: string): Promise<void> {
  if (await exists(folder)) return;
  // Whatever the umask: nobody else may write to what leads to keys.
  await Deno.mkdir(dirname(folder), { recursive: true, mode: 0o755 });
  await createPrivateFolder(folder);
}

/** The mode given at creation passes through the umask: neither wider nor narrower than meant may remain. */
async function createPrivateFolder(path: string): Promise<void> {
  await Deno.mkdir(path, { mode: FOLDER_MODE });
  await Deno.chmod(path, FOLDER_MODE);
}

async function writeEntry(parent: string, entry: PlannedEntry): Promise<void> {
  const path = join(parent, entry.path);
  if (entry.content === undefined) {
    await createPrivateFolder(path);
  } else {
    using file = await Deno.open(path, { write: true, createNew: true, mode: 0o600 });
    const bytes = typeof entry.content === "string" ? new TextEncoder().encode(entry.content) : entry.content;
    for (let written = 0; written < bytes.length;) written += await file.write(bytes.subarray(written));
    await file.syncData();
  }
  await Deno.chmod(path, entry.mode);
}

async function moveAside({ folder, clock }: WriteOptions): Promise<string | undefined> {
  if (await findSetUp(folder) === undefined) return undefined;
  const backup = await createBackupFolder(folder, clock.now());
  for (const name of SET_UP_ENTRIES) {
    if (await exists(join(folder, name))) await Deno.rename(join(folder, name), join(backup, name));
  }
  return backup;
}

async function createBackupFolder(folder: string, now: number): Promise<string> {
  const stamp = new Date(now).toISOString().replace(/\.\d+|[-:]/g, "");
  for (let number = 1;; number++) {
    const path = join(folder, `backup-${stamp}${number === 1 ? "" : `-${number}`}`);
    try {
      await createPrivateFolder(path);
      return path;
    } catch (error) {
      if (!(error instanceof Deno.errors.AlreadyExists)) throw error;
    }
  }
}

/** Also a link that leads nowhere is there. */
async function exists(path: string): Promise<boolean> {
  return await ifThere(Deno.lstat(path)) !== undefined;
}
