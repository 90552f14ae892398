import { basename, dirname, join, resolve } from "node:path";
import { type Clock, systemClock } from "@gateway/shared/clock";
import { command, repeat } from "../kit/command.ts";
import { createFolder, readOperatorText } from "../kit/files.ts";
import { conflict, createLineWriter, internal, invalid, notFound } from "../kit/output.ts";
import { restoreBackup } from "./restore.ts";
import { createHash } from "node:crypto";
import { logsOfSet, verifyFile } from "@gateway/shared/audit";
import { AppError, errorText } from "@gateway/shared/errors";
import { ifThere, writeFileAtomic } from "@gateway/shared/files";
import { quoteText, shellQuote } from "@gateway/shared/text";
import {
  type BackupSources,
  type CopiedFile,
  copyBytes,
  copyDatabase,
  copyLog,
  digestFile,
  findSources,
  type LogCopy,
  readSource,
} from "./sources.ts";
import {
  type BackupFile,
  type BackupManifest,
  backupSeedPath,
  ensureBackupKey,
  SIGNATURE,
  signManifest,
} from "./manifest.ts";
import { type TarFile, writeTar } from "./tar.ts";

export const BACKUP = command({
  name: "backup",
  summary: "Copy configs, state and audit logs to a new directory.",
  takes: {
    "<directory>": "new directory for the backup",
    "--recipient <age1…>": repeat("age recipient that can decrypt the keys; repeatable"),
  },
  help: `
Examples:
  broker-ctl backup /mnt/backup/monday --config /etc/gateway/signer.json
  broker-ctl backup /mnt/backup/monday --recipient "$(age-keygen -y identity.txt)" --config /etc/gateway/signer.json

Copies the configs, their policy_tests, the lists of denied callers, the state of signer and control plane, and all
files of the audit logs. The services may run meanwhile. Keys, certificates, tokens and the services' .env files are
added only with --recipient, encrypted in the format of age. "age-keygen -o identity.txt" creates an age key pair.
Without --recipient, store pki/ elsewhere: an installation does not start without its keys. Files outside of the
installation and of its state and log directories are not copied, and the output names them. State in PostgreSQL is not
copied either.

The first backup creates the signing key pki/backup.seed, and every backup is signed with it. The output shows the
public key. Store the public key away from the backup, for example with the age identity: restore needs it. A copy of
the public key inside the backup proves nothing, because anyone who can write the backup can replace that copy. Run it
as a user who can read all these files, root for an installation of packages. Exit code 1: an audit log is not intact,
and was copied as it is.
`,
  run: async ({ directory, config = "signer.json", recipient = [] }, { workingFolder }) => {
    const target = resolve(workingFolder, directory);
    const setUp = dirname(resolve(workingFolder, config));
    const options = { setUp, target, recipients: recipient, clock: systemClock };
    const { manifest, publicKey } = await makeBackup(options);
    const count = (kind: string) => manifest.files.filter((file) => file.kind === kind).length;
    const { keys, left_out: leftOut, heads, problems = [] } = manifest;
    const lists = count("denied_callers");
    return {
      json: { folder: target, public_key: publicKey, ...manifest },
      lines: [
        `backup of ${setUp} in ${target}: ${count("config")} configs, ${count("state")} states, ` +
        `${lists} ${lists === 1 ? "list" : "lists"} of denied callers, ${
          count("audit_log")
        } audit log files, ` +
        (keys === undefined ? "no keys" : `${keys.count} keys (encrypted)`),
        ...heads.map(({ path, seq, hash }) =>
          `${path} ends with record ${seq}${hash === "" ? "" : `, ${hash}`}`
        ),
        ...(keys === undefined ? ["the backup contains no keys; --recipient adds them, encrypted"] : []),
        `signed; store the public key away from the backup, and restore with --public-key ${publicKey}`,
        ...leftOut.map((what) => `not included: ${what}`),
        ...problems.map((problem) => `ERROR: ${problem}`),
      ],
      failed: problems.length > 0,
    };
  },
});

export const RESTORE = command({
  name: "restore",
  summary: "Restore a backup.",
  takes: {
    "<directory>": "directory of the backup",
    "--dir <directory>": "another directory for the installation",
    "--identity <file>": "age identity that decrypts the keys (AGE-SECRET-KEY-1…)",
    "--without-keys": "restore everything except the keys",
    "--public-key <key>": "public key that signed the backup, from the output of backup",
    "--trust-unsigned": "do not check the signature",
  },
  help: `
Examples:
  broker-ctl restore /mnt/backup/monday --identity identity.txt --public-key PUBLIC_KEY
  broker-ctl restore /mnt/backup/monday --identity identity.txt --public-key PUBLIC_KEY --dir ~/gateway

Stop the services first. PUBLIC_KEY is in the output of backup, and of "doctor --json --backup" while the installation
exists. restore rejects a backup without a valid signature of that key. --trust-unsigned skips this check: anyone who
can write such a backup can replace policies and keys. A signature does not prove that the backup is the newest one:
compare its time in the plan.

restore prints the plan, then writes. Files return to their places with their modes and, for root, their owners. With
--dir they go to another directory, and the configs name the files there. Nothing is written outside of the installation
and of the state and log directories that its configs name. Equal files stay, so an interrupted restore can be repeated.
If any other file is in the way, nothing is written. restore then verifies that each audit log ends where it ended.
Freezes, revocations, grants and approvals made after the backup are lost: freeze these identities again.
`,
  uses: () => [],
  run: async ({ directory, dir, identity, publicKey, json = false, ...given }, call) => {
    const { withoutKeys = false, trustUnsigned = false } = given;
    const { workingFolder, terminal } = call;
    const at = (path: string) => resolve(workingFolder, path);
    if (identity !== undefined && withoutKeys) {
      throw invalid("Cannot use --identity with --without-keys: pass one of them");
    }
    if ((publicKey === undefined) !== trustUnsigned) {
      const fix =
        "pass --public-key KEY, which backup printed; or --trust-unsigned if only you could write the backup";
      throw invalid("Cannot restore: pass either --public-key or --trust-unsigned", undefined, fix);
    }
    const identities = withoutKeys
      ? undefined
      : identity === undefined
      ? []
      : await readIdentities(at(identity));
    const { line } = createLineWriter(terminal, { json });
    const { manifest, folder: target, files, keys, plan, missing, problems } = await restoreBackup({
      backup: at(directory),
      folder: dir === undefined ? undefined : at(dir),
      identities,
      publicKey,
      onPlan: (lines) => json ? undefined : lines.forEach((each) => line(`plan: ${each}`)),
    });
    const ok = problems.length === 0;
    return {
      json: { ok, folder: target, made_at: manifest.made_at, files, keys, plan, missing, problems },
      lines: [
        `restored ${files} files and ${keys} keys of ${manifest.made_at} to ${target}`,
        ...(ok ? [`${manifest.heads.length} audit logs: intact, with the heads of the backup`] : []),
        ...problems.map((problem) => `ERROR: ${problem}`),
        ...missing.map((what) => `missing: ${what}`),
        "freezes, revocations, grants and approvals made after the backup are lost: freeze these identities again",
      ],
      failed: !ok,
    };
  },
});

/** The identities in the output file of `age-keygen`. */
async function readIdentities(path: string): Promise<readonly string[]> {
  const text = await readOperatorText(path, "identity");
  return text.split("\n").map((line) => line.trim()).filter((line) => line !== "" && !line.startsWith("#"));
}

/** The documentation of age and of earlier versions has this recipient. The owner of its key is unknown. */
const AGE_SAMPLE_RECIPIENT = "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p";

interface BackupOptions {
  readonly setUp: string;
  readonly target: string;
  /** The age recipients that can read the keys; without recipients, the keys are left out. */
  readonly recipients: readonly string[];
  readonly clock: Clock;
}

/**
 * Copies an installation, also while its services run. The directory gets its name when everything in it is durable.
 *
 * @returns the manifest, and in base64 the public half of the key that signed it
 */
export async function makeBackup(options: BackupOptions) {
  const { target, setUp } = options;
  const shown = `Cannot create a backup in ${quoteText(target)}`;
  if (await ifThere(Deno.lstat(target)) !== undefined) {
    throw conflict(`${shown}: it exists`, undefined, `broker-ctl backup ${shellQuote(`${target}-2`)}`);
  }
  const sources = await findSources(setUp);
  if (sources.configs.length === 0) {
    throw notFound(`Cannot create a backup: there is no config in ${quoteText(setUp)}`);
  }
  return await createFolder(target, async (folder) => {
    await Deno.mkdir(join(folder, "files"), { mode: 0o700 });
    const key = await ensureBackupKey(backupSeedPath(setUp));
    const manifest = await fill(folder, options, sources);
    const bytes = new TextEncoder().encode(JSON.stringify(manifest, null, 2));
    await writeFileAtomic(join(folder, SIGNATURE), new TextEncoder().encode(signManifest(bytes, key)));
    await writeFileAtomic(join(folder, "manifest.json"), bytes);
    return { manifest, publicKey: key.publicKey.bytes.toBase64() };
  }).catch((cause) => {
    if (cause instanceof AppError) throw cause;
    throw internal(`${shown}: ${errorText(cause)}; nothing was written`, cause);
  });
}

async function fill(folder: string, { setUp, recipients, clock }: BackupOptions, sources: BackupSources) {
  const made_at = new Date(clock.now()).toISOString();
  let count = 0;
  const nextCopy = () => join(folder, "files", String(++count).padStart(4, "0"));
  const files: BackupFile[] = [];
  const heads: BackupManifest["heads"] = [];
  const problems: string[] = [];
  const add = async (kind: BackupFile["kind"], path: string, copy: string, copied: CopiedFile) => {
    files.push({ kind, path, stored: `files/${basename(copy)}`, ...copied, ...await digestFile(copy) });
  };
  const copied = [
    ["config", sources.configs],
    ["denied_callers", sources.deniedCallers],
    ["policy_tests", sources.policyTests],
  ] as const;
  for (const [kind, paths] of copied) {
    for (const path of paths) {
      const copy = nextCopy();
      await add(kind, path, copy, await copyBytes(path, copy));
    }
  }
  // Copy the state before the audit logs, because a decision is recorded before it takes effect.
  for (const path of sources.states) {
    if (await ifThere(Deno.stat(path)) === undefined) continue;
    const copy = nextCopy();
    await add("state", path, copy, await copyDatabase(path, copy, clock));
  }
  for (const log of sources.auditLogs) {
    // Ordinary users write some of the logs: a problem with one user's log must not block the backup of the others.
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
 * @param problems receives the logs that are not intact; they have no head
 */
async function findHeads(log: string, copies: readonly LogCopy[], problems: string[]) {
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

async function packKeys(folder: string, paths: readonly string[], recipients: readonly string[]) {
  if (recipients.length === 0) return undefined;
  const files: TarFile[] = [];
  for (const path of paths) files.push({ ...await readSource(path), path });
  const { Encrypter } = await import("age-encryption");
  const encrypter = new Encrypter();
  for (const recipient of recipients) {
    const refuse = (why: string, cause?: unknown, hint?: string) =>
      invalid(`Cannot use recipient ${quoteText(recipient)}: ${why}`, cause, hint);
    if (recipient === AGE_SAMPLE_RECIPIENT) {
      const fix =
        'create a key with "age-keygen -o identity.txt", then pass --recipient "$(age-keygen -y identity.txt)"';
      throw refuse("it is the sample key of age's README, not yours", undefined, fix);
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
