import { createHash } from "node:crypto";
import { basename, dirname, join } from "node:path";
import { logsOfSet, verifyFile } from "@gateway/shared/audit";
import { type Clock, systemRandom } from "@gateway/shared/clock";
import { AppError, errorText } from "@gateway/shared/errors";
import { ifThere, removeLeft, writeFileAtomic } from "@gateway/shared/files";
import { quoteText } from "@gateway/shared/text";
import { conflict, HintedError } from "../kit/output.ts";
import {
  type CopiedFile,
  copyBytes,
  copyDatabase,
  copyLog,
  digestFile,
  type LogCopy,
  readSource,
} from "./copy.ts";
import {
  type BackupFile,
  type BackupManifest,
  backupSeedPath,
  ensureBackupKey,
  SIGNATURE,
  signManifest,
} from "./manifest.ts";
import { findSources, type SetUpSources } from "./sources.ts";
import { type TarFile, writeTar } from "./tar.ts";

/** Documentation of age and of earlier versions shows this key. Its private half belongs to an unknown person. */
const AGE_SAMPLE_RECIPIENT = "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p";

interface BackupOptions {
  readonly setUp: string;
  readonly target: string;
  /** The age recipients that can read the keys; without recipients, the keys are left out. */
  readonly recipients: readonly string[];
  readonly clock: Clock;
}

/**
 * Copies an installation, also while its services run. The directory gets its name when all of it is durable.
 *
 * @returns the manifest, and in base64 the public half of the key that signed it
 */
export async function makeBackup(
  options: BackupOptions,
): Promise<{ readonly manifest: BackupManifest; readonly publicKey: string }> {
  const { target, setUp } = options;
  const shown = `Cannot make a backup in ${quoteText(target)}`;
  if (await ifThere(Deno.lstat(target)) !== undefined) {
    throw conflict(`${shown}: it is there`);
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
    throw new AppError("internal", `${shown}: ${errorText(cause)}; nothing of it is there`, { cause });
  }
}

async function fill(
  folder: string,
  { setUp, recipients, clock }: BackupOptions,
  sources: SetUpSources,
): Promise<BackupManifest> {
  const made_at = new Date(clock.now()).toISOString();
  let count = 0;
  const nextCopy = () => join(folder, "files", String(++count).padStart(4, "0"));
  const files: BackupFile[] = [];
  const heads: BackupManifest["heads"] = [];
  const problems: string[] = [];
  const add = async (kind: BackupFile["kind"], path: string, copy: string, copied: CopiedFile) => {
    files.push({ kind, path, stored: `files/${basename(copy)}`, ...copied, ...await digestFile(copy) });
  };
  for (
    const [kind, paths] of [["config", sources.configs], ["denied_callers", sources.deniedCallers]] as const
  ) {
    for (const path of paths) {
      const copy = nextCopy();
      await add(kind, path, copy, await copyBytes(path, copy));
    }
  }
  // State before audit logs: no decision is in force before its record.
  for (const path of sources.states) {
    if (await ifThere(Deno.stat(path)) === undefined) continue;
    const copy = nextCopy();
    await add("state", path, copy, await copyDatabase(path, copy, clock));
  }
  for (const log of sources.auditLogs) {
    // Users of a machine write some of the logs: a user's own log must not block the backup of the others.
    const logs = await copyLog(log, nextCopy);
    problems.push(...logs.problems);
    for (const { path, copy, copied } of logs.copies) await add("audit_log", path, copy, copied);
    heads.push(...await findHeads(log, logs.copies, problems));
  }
  const keyFiles = [...new Set([...sources.keys, backupSeedPath(setUp)])];
  const keys = await packKeys(folder, keyFiles, recipients);
  const placed = [...files.map(({ link, path }) => link ?? path), ...(keys === undefined ? [] : keyFiles)];
  const folders = [...new Set(placed.map((path) => dirname(path)))].sort().map(async (path) => {
    const { mode, uid, gid } = await Deno.stat(path);
    return { path, mode: (mode ?? 0o700) & 0o7777, uid: uid ?? 0, gid: gid ?? 0 };
  });
  return {
    format: 1,
    made_at,
    set_up: setUp,
    files,
    folders: await Promise.all(folders),
    heads,
    ...(keys !== undefined && { keys }),
    left_out: sources.leftOut,
    ...(problems.length > 0 && { problems }),
  };
}

/**
 * Finds the end of each log of a config: in the current file, or in the newest rotated one.
 *
 * @param problems receives the logs that are not intact; they have no end
 */
async function findHeads(
  log: string,
  copies: readonly LogCopy[],
  problems: string[],
): Promise<BackupManifest["heads"]> {
  const heads: BackupManifest["heads"] = [];
  const names = copies.map(({ path }) => basename(path));
  for (const path of logsOfSet(log, names)) {
    let head = { path, seq: "0", hash: "" };
    let problem: string | undefined;
    for (const { copy } of copies.filter((one) => one.path === path || one.path.startsWith(`${path}.`))) {
      const { head: { seq, hash } } = await verifyFile({
        path: copy,
        onProblem: ({ line, message }) =>
          void (problem ??= `Audit log ${quoteText(path)} is not intact: line ${line}: ${message}`),
      });
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
  for (const recipient of recipients) {
    const refuse = (why: string, cause?: unknown) =>
      new AppError("invalid_request", `Cannot use recipient ${quoteText(recipient)}: ${why}`, { cause });
    if (recipient === AGE_SAMPLE_RECIPIENT) {
      throw new HintedError(
        refuse("it is the sample key of age's README, not yours"),
        'create a key with "age-keygen -o identity.txt", then pass --recipient "$(age-keygen -y identity.txt)"',
      );
    }
    try {
      encrypter.addRecipient(recipient);
    } catch (cause) {
      throw refuse("expected age1…", cause);
    }
  }
  const sealed = await encrypter.encrypt(writeTar(files));
  await writeFileAtomic(join(folder, "keys.age"), sealed);
  return { count: files.length, sha256: createHash("sha256").update(sealed).digest("hex") };
}
