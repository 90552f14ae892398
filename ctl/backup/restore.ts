import { createHash } from "node:crypto";
import { constants, open } from "node:fs/promises";
import { basename, dirname, join, relative, resolve } from "node:path";
import { logsOfSet, syncFolder, verifyAll } from "@gateway/shared/audit";
import { ifThere, readRegularFile, writeFileAtomic } from "@gateway/shared/files";
import { AppError, errorText } from "@gateway/shared/errors";
import { quoteText } from "@gateway/shared/text";
import { systemRandom } from "@gateway/shared/clock";
import { HintedError } from "../kit/output.ts";
import { readOperatorFile } from "../kit/files.ts";
import { copyBytes, digestFile } from "./copy.ts";
import {
  type BackupFile,
  type BackupFolder,
  type BackupHead,
  type BackupManifest,
  parseManifest,
} from "./manifest.ts";
import { verifyManifest } from "./signature.ts";
import { findRestorable, findSources } from "./sources.ts";
import { readTar, type TarFile } from "./tar.ts";

interface RestoreOptions {
  readonly backup: string;
  /** Another folder for the set-up; absolute. Absent: all goes where it was. */
  readonly folder: string | undefined;
  /** age identities that open the keys; empty: the backup must hold no keys; undefined: leave the keys out. */
  readonly identities: readonly string[] | undefined;
  /** The key that must have signed the backup, in base64; undefined: the operator vouches for the backup. */
  readonly publicKey: string | undefined;
  /** Called with the lines of the plan before anything is written. */
  readonly onPlan: (plan: readonly string[]) => void;
}

/** What was restored, and what is still to be done. */
interface Restored {
  readonly manifest: BackupManifest;
  readonly folder: string;
  readonly files: number;
  readonly keys: number;
  /** What was planned, a line for each file. */
  readonly plan: readonly string[];
  /** What the configs name and is not there, and what the backup has not as it was. */
  readonly missing: readonly string[];
  /** Defects of the audit logs; none means that each ends where it ended in the backup. */
  readonly problems: readonly string[];
}

/** A file as it is to be: from bytes, or from a copy that may be too large for memory. */
interface Written {
  readonly path: string;
  readonly mode: number;
  readonly owner?: { readonly uid: number; readonly gid: number };
  readonly from: Uint8Array | string;
  readonly size: number;
  readonly sha256: string;
  readonly isConfig: boolean;
}

/**
 * Puts a backup back. All of it is checked before anything is written. A file that is there as the backup has it stays,
 * so that a restore that was killed goes on; any other one is a reason to write nothing. Configs come last.
 *
 * @throws {AppError} `invalid_config` for a backup that is damaged, `conflict` when something else is in its place
 */
export async function restoreBackup(
  { backup, folder, identities, publicKey, onPlan }: RestoreOptions,
): Promise<Restored> {
  const signed = await readOperatorFile(join(backup, "manifest.json"), "backup");
  if (publicKey !== undefined) await verifyManifest(backup, signed, publicKey);
  const manifest = parseManifest(new TextDecoder().decode(signed));
  const target = folder ?? manifest.set_up;
  const move = createMove(manifest.set_up, target);
  const keys = await openKeys(backup, manifest, identities);
  const configs = [];
  for (const file of manifest.files) {
    const from = await checkStored(backup, file);
    if (file.kind === "config") configs.push({ path: file.path, from });
  }
  const isRestorable = await findRestorable(manifest.set_up, configs);
  const files: Written[] = [];
  const links: (readonly [path: string, to: string])[] = [];
  for (const file of manifest.files) {
    const { mode, uid, gid, kind, link, path } = file;
    if (!isRestorable(path)) throw outside(path, manifest.set_up);
    const isConfig = kind === "config";
    // A link is restored only if it leads to where a restore may write. Else a file takes its place.
    const isLink = folder === undefined && link !== undefined &&
      (isRestorable(link) || isConfig && basename(link) === basename(path));
    if (isLink) links.push([path, link]);
    files.push({
      path: isLink ? link : move(path),
      mode,
      owner: { uid, gid },
      isConfig,
      ...(isConfig
        ? describeBytes(rewrite(await readStored(backup, file), manifest.set_up, target))
        : { from: join(backup, file.stored), size: file.size, sha256: file.sha256 }),
    });
  }
  for (const { path, mode, uid, gid, content } of keys) {
    if (!isRestorable(path)) throw outside(path, manifest.set_up);
    files.push({ path: move(path), mode, owner: { uid, gid }, isConfig: false, ...describeBytes(content) });
  }
  if (folder !== undefined) { for (const { path } of files) await refuseLinks(folder, path); }
  for (const [path, to] of links) await checkLink(path, to);
  const absent: Written[] = [];
  for (const file of files) if (!await isThere(file)) absent.push(file);
  // A service that ran here has changes of its own beside its database: they are not those of this one.
  for (const { path, kind } of manifest.files) {
    const changes = `${move(path)}-wal`;
    if (kind === "state" && await ifThere(Deno.lstat(changes)) !== undefined) throw occupied(changes);
  }
  const plan = [
    `backup of ${manifest.made_at}, ${
      publicKey === undefined ? "signature not checked (--trust-unsigned)" : `signed by ${publicKey}`
    }`,
    ...files.map((file) => `${absent.includes(file) ? "write" : "keep"} ${describePlanned(file)}`),
    ...links.map(([path, to]) => `link ${path} -> ${to}`),
  ];
  onPlan(plan);
  try {
    await makeFolders(
      (manifest.folders ?? []).flatMap((each) => {
        if (folder === undefined) return [each];
        const isInside = `${each.path}/`.startsWith(`${manifest.set_up}/`);
        return isInside ? [{ ...each, path: join(folder, relative(manifest.set_up, each.path)) }] : [];
      }),
      absent.map(({ path }) => path),
    );
    for (const file of absent.toSorted((a, b) => Number(a.isConfig) - Number(b.isConfig))) await write(file);
    for (const [path, to] of links) {
      await Deno.mkdir(dirname(path), { recursive: true, mode: 0o755 });
      if (await ifThere(Deno.lstat(path)) === undefined) await Deno.symlink(to, path);
    }
  } catch (cause) {
    if (cause instanceof AppError) throw cause;
    const message = `Cannot restore to ${quoteText(target)}: ${errorText(cause)}; ` +
      "fix that and run the command again, restored files stay";
    throw new AppError("internal", message, { cause });
  }
  const problems = [];
  for (const head of manifest.heads) problems.push(...await checkLog(head, move(head.path)));
  const { leftOut } = await findSources(target);
  return {
    manifest,
    folder: target,
    files: manifest.files.length,
    keys: keys.length,
    plan,
    missing: [...leftOut, ...manifest.problems ?? []],
    problems,
  };
}

/** Where a path of the backup goes. */
function createMove(from: string, to: string): (path: string) => string {
  if (from === to) return (path) => path;
  return (path) => {
    if (path.startsWith(`${from}/`)) return join(to, relative(from, path));
    throw new AppError(
      "not_supported",
      `Cannot restore to ${quoteText(to)}: ${quoteText(path)} was outside of the set-up's folder ${
        quoteText(from)
      }`,
    );
  };
}

function outside(path: string, installation: string): AppError {
  return new AppError(
    "invalid_config",
    `Cannot restore ${quoteText(path)}: it is outside of the installation ${
      quoteText(installation)
    } and of the ` +
      "state and log directories in its configs; nothing was written",
  );
}

function describePlanned({ path, mode, owner, size }: Written): string {
  const account = owner === undefined ? "" : `, owner ${owner.uid}:${owner.gid}`;
  return `${path} (mode ${mode.toString(8).padStart(4, "0")}${account}, ${size} bytes)`;
}

/** A config names its files by absolute paths: those in the folder of the set-up move with it. */
function rewrite(content: Uint8Array, from: string, to: string): Uint8Array {
  const inString = (path: string) => JSON.stringify(`${path}/`).slice(0, -1);
  return new TextEncoder().encode(
    new TextDecoder().decode(content).replaceAll(inString(from), () => inString(to)),
  );
}

function describeBytes(from: Uint8Array) {
  return { from, size: from.length, sha256: createHash("sha256").update(from).digest("hex") };
}

/** Reads a copy once more, which somebody who can write the backup may have replaced since it was checked. */
async function readStored(backup: string, { stored, path, sha256 }: BackupFile): Promise<Uint8Array> {
  const content = await readRegularFile(join(backup, stored));
  if (describeBytes(content).sha256 !== sha256) throw changed(path);
  return content;
}

function changed(path: string): AppError {
  return new AppError(
    "invalid_config",
    `The backup's copy of ${quoteText(path)} was changed during the restore`,
  );
}

/** The path of a copy that is as it was written. */
async function checkStored(backup: string, { stored, path, sha256, size }: BackupFile): Promise<string> {
  const file = join(backup, stored);
  const info = await ifThere(Deno.lstat(file));
  if (info !== undefined && !info.isFile) {
    throw new AppError("invalid_config", `The backup's copy of ${quoteText(path)} is no file of its own`);
  }
  const digest = await ifThere(digestFile(file));
  if (digest?.sha256 === sha256 && digest.size === size) return file;
  const why = digest === undefined ? "it is not there" : "it is not what was written";
  throw new AppError("invalid_config", `The backup's copy of ${quoteText(path)} is damaged: ${why}`);
}

async function openKeys(
  backup: string,
  { keys }: BackupManifest,
  identities: readonly string[] | undefined,
): Promise<readonly TarFile[]> {
  if (identities === undefined) return [];
  if (keys === undefined && identities.length === 0) return [];
  if (keys === undefined) {
    throw new AppError("invalid_request", "The backup holds no keys: it was made without --recipient");
  }
  if (identities.length === 0) {
    throw new HintedError(
      new AppError("invalid_request", `Cannot restore: the backup holds ${keys.count} encrypted keys`),
      "pass --identity FILE, the age identity that opens them, or --without-keys to restore everything else",
    );
  }
  const sealed = await readOperatorFile(join(backup, "keys.age"), "the backup's keys");
  if (createHash("sha256").update(sealed).digest("hex") !== keys.sha256) {
    throw new AppError("invalid_config", "The backup's keys are damaged: they are not what was written");
  }
  const { Decrypter } = await import("age-encryption");
  const decrypter = new Decrypter();
  try {
    for (const identity of identities) decrypter.addIdentity(identity);
    const files = readTar(new Uint8Array(await decrypter.decrypt(sealed)));
    if (files.length !== keys.count) throw new RangeError("the archive has another number of files");
    return files;
  } catch (cause) {
    const why = errorText(cause);
    throw new AppError("invalid_request", `Cannot open the backup's keys with --identity: ${why}`, { cause });
  }
}

/** Whether a file is there as it would be written. */
async function isThere({ path, size, sha256 }: Written): Promise<boolean> {
  const info = await ifThere(Deno.lstat(path));
  if (info === undefined) return false;
  if (info.isFile && info.size === size && (await digestFile(path)).sha256 === sha256) return true;
  throw occupied(path);
}

function occupied(path: string): AppError {
  return new AppError(
    "conflict",
    `Cannot restore: ${quoteText(path)} is there and is not the backup's; nothing was written`,
  );
}

/** A file has its name only when all of it is there. */
async function write({ path, mode, owner, from, sha256 }: Written): Promise<void> {
  await Deno.mkdir(dirname(path), { recursive: true, mode: 0o700 });
  const temporary = join(dirname(path), `.${basename(path)}.${systemRandom.bytes(8).toHex()}`);
  try {
    if (typeof from === "string") await copyBytes(from, temporary);
    else await writeFileAtomic(temporary, from);
    // Somebody who can write the backup may have replaced the copy since it was checked.
    if ((await digestFile(temporary)).sha256 !== sha256) throw changed(path);
    await give(temporary, { mode, owner });
    await Deno.rename(temporary, path);
  } catch (error) {
    await Deno.remove(temporary).catch(() => {});
    throw error;
  }
  await syncFolder(path);
}

/** The mode and, for root, the owner of a file or folder that was just made; of nothing that a link leads to. */
async function give(
  path: string,
  { mode, owner }: {
    readonly mode: number;
    readonly owner: { readonly uid: number; readonly gid: number } | undefined;
  },
): Promise<void> {
  const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW);
  try {
    if (owner !== undefined && Deno.uid() === 0) await file.chown(owner.uid, owner.gid);
    await file.chmod(mode);
    await file.sync();
  } finally {
    await file.close();
  }
}

/** Folders that are not there, as they were; a folder above all of them is for its owner alone. */
async function makeFolders(folders: readonly BackupFolder[], files: readonly string[]): Promise<void> {
  const wanted = new Set(files.map((path) => dirname(path)));
  for (const { path, mode, uid, gid } of folders.toSorted((a, b) => a.path.length - b.path.length)) {
    if (!wanted.has(path) || await ifThere(Deno.lstat(path)) !== undefined) continue;
    await Deno.mkdir(path, { recursive: true, mode: 0o700 });
    await give(path, { mode, owner: { uid, gid } });
  }
}

/** Below the folder that was named nothing may lead out of it. */
async function refuseLinks(folder: string, path: string): Promise<void> {
  for (let at = dirname(path); at.length > folder.length; at = dirname(at)) {
    if ((await ifThere(Deno.lstat(at)))?.isSymlink === true) {
      throw new AppError(
        "conflict",
        `Cannot restore: ${quoteText(at)} is a symbolic link; nothing was written`,
      );
    }
  }
}

/** What is in the place of a link has to be that link. */
async function checkLink(path: string, to: string): Promise<void> {
  const info = await ifThere(Deno.lstat(path));
  if (info === undefined) return;
  if (
    info.isSymlink && await ifThere(Deno.readLink(path).then((link) => resolve(dirname(path), link))) === to
  ) {
    return;
  }
  throw occupied(path);
}

/** A log has to be whole, and to end where it did. */
async function checkLog({ seq, hash, path: from }: BackupHead, path: string): Promise<readonly string[]> {
  const names = await ifThere(Array.fromAsync(Deno.readDir(dirname(path)), ({ name }) => name)) ?? [];
  if (logsOfSet(path, names).length === 0) return hash === "" ? [] : [`${from} is missing`];
  const problems: string[] = [];
  const { head } = await verifyAll({
    path,
    onProblem: ({ file, line, message }) => void problems.push(`${file}: line ${line}: ${message}`),
  });
  if (head.hash !== hash || String(head.seq) !== seq) {
    problems.push(`${path} does not end where it did (record ${seq})`);
  }
  return problems;
}
