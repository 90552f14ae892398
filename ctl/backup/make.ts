import { createHash } from "node:crypto";
import { basename, dirname, join } from "node:path";
import { logsOfSet, verifyFile } from "@gateway/shared/audit";
import { type Clock, systemRandom } from "@gateway/shared/clock";
import { AppError, errorText } from "@gateway/shared/errors";
import { ifThere, removeLeft, writeFileAtomic } from "@gateway/shared/files";
import { quoteText } from "@gateway/shared/text";
import { HintedError } from "../kit/output.ts";
import {
  type CopiedFile,
  copyBytes,
  copyDatabase,
  copyLog,
  digestFile,
  type LogCopy,
  readSource,
} from "./copy.ts";
import type { BackupFile, BackupFolder, BackupHead, BackupKind, BackupManifest } from "./manifest.ts";
import { backupSeedPath, ensureBackupKey, SIGNATURE, signManifest } from "./signature.ts";
import { findSources } from "./sources.ts";
import { type TarFile, writeTar } from "./tar.ts";

/** Documentation of age and of earlier versions shows this key. Its private half belongs to an unknown person. */
const AGE_SAMPLE_RECIPIENT = "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p";

/** What a backup is to hold. */
interface BackupOptions {
  /** The folder of the configs; absolute. */
  readonly setUp: string;
  /** Where it goes; absolute, and not there yet. */
  readonly target: string;
  /** Who can read the keys: age recipients; none: they are left out. */
  readonly recipients: readonly string[];
  readonly clock: Clock;
}

/** A backup, and the public half of the key that signed it. */
interface MadeBackup {
  readonly manifest: BackupManifest;
  /** 32 bytes in base64. */
  readonly publicKey: string;
}

/**
 * Copies a set-up, also while its services run. The folder has its name only when all of it is there and durable.
 *
 * @throws {AppError} `conflict` when something of that name is there, `invalid_config` for what can't be copied whole
 */
export async function makeBackup(options: BackupOptions): Promise<MadeBackup> {
  const { target, setUp } = options;
  if (await ifThere(Deno.lstat(target)) !== undefined) {
    throw new AppError("conflict", `Cannot make a backup in ${quoteText(target)}: it is there`);
  }
  const sources = await findSources(setUp);
  if (sources.configs.length === 0) {
    throw new AppError("not_found", `Cannot make a backup: there is no config in ${quoteText(setUp)}`);
  }
  const folder = join(dirname(target), `.${basename(target)}.${systemRandom.bytes(8).toHex()}`);
  try {
    await Deno.mkdir(join(folder, "files"), { recursive: true, mode: 0o700 });
    const key = await ensureBackupKey(backupSeedPath(setUp));
    const manifest = await fill(folder, options, sources);
    const bytes = new TextEncoder().encode(JSON.stringify(manifest, null, 2));
    await writeFileAtomic(join(folder, SIGNATURE), new TextEncoder().encode(signManifest(bytes, key)));
    await writeFileAtomic(join(folder, "manifest.json"), bytes);
    await Deno.rename(folder, target);
    await removeLeft(target);
    return { manifest, publicKey: key.publicKey.bytes.toBase64() };
  } catch (cause) {
    await Deno.remove(folder, { recursive: true }).catch(() => {});
    if (cause instanceof AppError) throw cause;
    const message = `Cannot make a backup in ${quoteText(target)}: ${
      errorText(cause)
    }; nothing of it is there`;
    throw new AppError("internal", message, { cause });
  }
}

async function fill(
  folder: string,
  { setUp, recipients, clock }: BackupOptions,
  sources: Awaited<ReturnType<typeof findSources>>,
): Promise<BackupManifest> {
  const made_at = new Date(clock.now()).toISOString();
  let count = 0;
  const nextCopy = () => join(folder, "files", String(++count).padStart(4, "0"));
  const files: BackupFile[] = [];
  const heads: BackupHead[] = [];
  const add = async (kind: BackupKind, path: string, copy: string, copied: CopiedFile) => {
    files.push({ kind, path, stored: `files/${basename(copy)}`, ...copied, ...await digestFile(copy) });
  };
  for (const path of sources.configs) {
    const copy = nextCopy();
    await add("config", path, copy, await copyBytes(path, copy));
  }
  for (const path of sources.deniedCallers) {
    const copy = nextCopy();
    await add("denied_callers", path, copy, await copyBytes(path, copy));
  }
  // First what decides, then the records of it: what is not on record yet is in force nowhere.
  for (const path of sources.states) {
    if (await ifThere(Deno.stat(path)) === undefined) continue;
    const copy = nextCopy();
    await add("state", path, copy, await copyDatabase(path, copy, clock));
  }
  const problems: string[] = [];
  for (const log of sources.auditLogs) {
    // Users of a machine write some of them: what they do to theirs must not keep the others from being backed up.
    const logs = await copyLog(log, nextCopy);
    problems.push(...logs.problems);
    for (const { path, copy, copied } of logs.copies) await add("audit_log", path, copy, copied);
    heads.push(...await findHeads(log, logs.copies, problems));
  }
  const keyFiles = [...new Set([...sources.keys, backupSeedPath(setUp)])];
  const keys = await packKeys(folder, keyFiles, recipients);
  return {
    format: 1,
    made_at,
    set_up: setUp,
    files,
    folders: await describeFolders([
      ...files.map(({ link, path }) => link ?? path),
      ...(keys === undefined ? [] : keyFiles),
    ]),
    heads,
    ...(keys !== undefined && { keys }),
    left_out: sources.leftOut,
    ...(problems.length > 0 && { problems }),
  };
}

async function describeFolders(paths: readonly string[]): Promise<readonly BackupFolder[]> {
  const folders = [...new Set(paths.map((path) => dirname(path)))].sort();
  return await Promise.all(folders.map(async (path) => {
    const { mode, uid, gid } = await Deno.stat(path);
    return { path, mode: (mode ?? 0o700) & 0o7777, uid: uid ?? 0, gid: gid ?? 0 };
  }));
}

/**
 * The end of each log of a config: of the file that is written, or of the last one that was rotated away.
 *
 * @param problems is told of logs that are not intact; they have no end
 */
async function findHeads(
  log: string,
  copies: readonly LogCopy[],
  problems: string[],
): Promise<readonly BackupHead[]> {
  const heads: BackupHead[] = [];
  const names = copies.map(({ path }) => basename(path));
  for (const path of logsOfSet(log, names)) {
    let head: BackupHead = { path, seq: "0", hash: "" };
    let problem: string | undefined;
    for (const { copy } of copies.filter((one) => one.path === path || one.path.startsWith(`${path}.`))) {
      const onProblem = ({ line, message }: { readonly line: number; readonly message: string }) =>
        void (problem ??= `Audit log ${quoteText(path)} is not intact: line ${line}: ${message}`);
      const { head: { seq, hash } } = await verifyFile({ path: copy, onProblem });
      if (hash !== "") head = { path, seq: String(seq), hash };
    }
    if (problem === undefined) heads.push(head);
    else problems.push(problem);
  }
  return heads;
}

async function packKeys(
  folder: string,
  paths: readonly string[],
  recipients: readonly string[],
): Promise<BackupManifest["keys"]> {
  if (recipients.length === 0) return undefined;
  const files: TarFile[] = [];
  for (const path of paths) files.push({ ...await readSource(path), path });
  const { Encrypter } = await import("age-encryption");
  const encrypter = new Encrypter();
  for (const recipient of recipients) addRecipient(encrypter, recipient);
  const sealed = await encrypter.encrypt(writeTar(files));
  await writeFileAtomic(join(folder, "keys.age"), sealed);
  return { count: files.length, sha256: createHash("sha256").update(sealed).digest("hex") };
}

function addRecipient(encrypter: { addRecipient(text: string): void }, recipient: string): void {
  if (recipient === AGE_SAMPLE_RECIPIENT) {
    throw new HintedError(
      new AppError(
        "invalid_request",
        `Cannot use recipient ${quoteText(recipient)}: it is the sample key of age's README, not yours`,
      ),
      'create a key with "age-keygen -o identity.txt", then pass --recipient "$(age-keygen -y identity.txt)"',
    );
  }
  try {
    encrypter.addRecipient(recipient);
  } catch (cause) {
    throw new AppError("invalid_request", `Cannot use recipient ${quoteText(recipient)}: expected age1…`, {
      cause,
    });
  }
}
