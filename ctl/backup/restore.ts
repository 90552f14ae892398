import { createHash } from "node:crypto";
import { constants, open } from "node:fs/promises";
import { basename, dirname, join, relative, resolve } from "node:path";
import { logsOfSet, syncFolder, verifyAll } from "@gateway/shared/audit";
import { systemRandom } from "@gateway/shared/clock";
import { AppError, errorText } from "@gateway/shared/errors";
import { formatMode, ifThere, readRegularFile, writeFileAtomic } from "@gateway/shared/files";
import { quoteText } from "@gateway/shared/text";
import { readOperatorFile } from "../kit/files.ts";
import { badConfig, conflict, internal, invalid } from "../kit/output.ts";
import { copyBytes, digestFile, findRestorable, findSources } from "./sources.ts";
import { type BackupFile, type BackupManifest, parseManifest, verifyManifest } from "./manifest.ts";
import { readTar } from "./tar.ts";

interface RestoreOptions {
  readonly backup: string;
  /** Another directory for the installation; absolute. Absent: files return to their places. */
  readonly folder: string | undefined;
  /** age identities that decrypt the keys; empty: the backup must contain no keys; undefined: do not restore keys. */
  readonly identities: readonly string[] | undefined;
  /** The key that must have signed the backup, in base64; undefined: the operator vouches for the backup. */
  readonly publicKey: string | undefined;
  /** Called with the lines of the plan before anything is written. */
  readonly onPlan: (plan: readonly string[]) => void;
}

/** A file to be written: from bytes, or from a copy that may be too large for memory. */
interface Written extends Omit<BackupFile, "kind" | "link" | "stored"> {
  readonly from: Uint8Array | string;
  readonly isConfig: boolean;
}

/**
 * Restores a backup. Everything is checked before anything is written. A file that already equals the backup's is kept, so
 * that an interrupted restore can continue. Any other existing file stops the restore. Configs come last.
 */
export async function restoreBackup({ backup, folder, identities, publicKey, onPlan }: RestoreOptions) {
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
  for (const { path } of [...manifest.files, ...keys]) {
    if (isRestorable(path)) continue;
    throw badConfig(
      `Cannot restore ${quoteText(path)}: it is outside of the installation ${quoteText(manifest.set_up)} ` +
        "and of the state and log directories in its configs; nothing was written",
    );
  }
  const files: Written[] = [];
  const links: (readonly [path: string, to: string])[] = [];
  for (const file of manifest.files) {
    const { mode, uid, gid, kind, link, path } = file;
    const isConfig = kind === "config";
    // A link is restored only if it leads to a path to which a restore may write. Otherwise a file replaces
    // it.
    const isLink = folder === undefined && link !== undefined &&
      (isRestorable(link) || isConfig && basename(link) === basename(path));
    if (isLink) links.push([path, link]);
    const content = isConfig
      ? describeBytes(rewrite(await readStored(backup, file), manifest.set_up, target))
      : { from: join(backup, file.stored), size: file.size, sha256: file.sha256 };
    files.push({ path: isLink ? link : move(path), mode, uid, gid, isConfig, ...content });
  }
  for (const { path, mode, uid, gid, content } of keys) {
    files.push({ path: move(path), mode, uid, gid, isConfig: false, ...describeBytes(content) });
  }
  if (folder !== undefined) { for (const { path } of files) await refuseLinks(folder, path); }
  for (const [path, to] of links) await checkLink(path, to);
  const absent: Written[] = [];
  for (const file of files) if (!await isThere(file)) absent.push(file);
  // A write-ahead log that another service left here does not belong to this database.
  for (const { path, kind } of manifest.files) {
    const changes = `${move(path)}-wal`;
    if (kind === "state" && await ifThere(Deno.lstat(changes)) !== undefined) throw occupied(changes);
  }
  const proof = publicKey === undefined
    ? "signature not checked (--trust-unsigned)"
    : `signed by ${publicKey}`;
  const plan = [
    `backup of ${manifest.made_at}, ${proof}`,
    ...files.map((file) => {
      const { path, mode, uid, gid, size } = file;
      const verb = absent.includes(file) ? "write" : "keep";
      return `${verb} ${path} (mode ${formatMode(mode)}, owner ${uid}:${gid}, ${size} bytes)`;
    }),
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
      "fix this and run the command again; restored files are kept";
    throw internal(message, cause);
  }
  const problems: string[] = [];
  for (const head of manifest.heads) problems.push(...await checkLog(head, move(head.path)));
  const { leftOut } = await findSources(target);
  return {
    manifest,
    folder: target,
    files: manifest.files.length,
    keys: keys.length,
    plan,
    /** Files that the configs name and that are absent, and defects of the backup itself. */
    missing: [...leftOut, ...manifest.problems ?? []],
    /** Defects of the audit logs; without any, each log ends where it ended in the backup. */
    problems,
  };
}

function occupied(path: string): AppError {
  return conflict(`Cannot restore ${quoteText(path)}: a different file exists; nothing was written`);
}

function changed(path: string): AppError {
  return badConfig(`The backup's copy of ${quoteText(path)} was changed during the restore`);
}

/** The new place of a path of the backup. */
function createMove(from: string, to: string): (path: string) => string {
  if (from === to) return (path) => path;
  return (path) => {
    if (path.startsWith(`${from}/`)) return join(to, relative(from, path));
    const why = `${quoteText(path)} was outside of the installation's directory ${quoteText(from)}`;
    throw new AppError("not_supported", `Cannot restore to ${quoteText(to)}: ${why}`);
  };
}

/** Configs have absolute paths: the paths in the directory of the installation move with it. */
function rewrite(content: Uint8Array, from: string, to: string): Uint8Array {
  const inString = (path: string) => JSON.stringify(`${path}/`).slice(0, -1);
  return new TextEncoder().encode(
    new TextDecoder().decode(content).replaceAll(inString(from), () => inString(to)),
  );
}

function describeBytes(from: Uint8Array) {
  return { from, size: from.length, sha256: createHash("sha256").update(from).digest("hex") };
}

/** Reads a copy again: an attacker who can write the backup may have replaced it after the check. */
async function readStored(backup: string, { stored, path, sha256 }: BackupFile): Promise<Uint8Array> {
  const content = await readRegularFile(join(backup, stored));
  if (describeBytes(content).sha256 !== sha256) throw changed(path);
  return content;
}

/** @returns the path of a copy that is intact */
async function checkStored(backup: string, { stored, path, sha256, size }: BackupFile): Promise<string> {
  const file = join(backup, stored);
  const shown = `The backup's copy of ${quoteText(path)}`;
  const info = await ifThere(Deno.lstat(file));
  if (info?.isFile === false) throw badConfig(`${shown} is not a regular file`);
  const digest = await ifThere(digestFile(file));
  if (digest?.sha256 === sha256 && digest.size === size) return file;
  throw badConfig(`${shown} is ${digest === undefined ? "missing" : "damaged: its content has changed"}`);
}

async function openKeys(backup: string, { keys }: BackupManifest, identities: readonly string[] | undefined) {
  if (identities === undefined || keys === undefined && identities.length === 0) return [];
  if (keys === undefined) {
    throw invalid("The backup contains no keys: it was created without --recipient");
  }
  if (identities.length === 0) {
    const fix = "pass --identity FILE to decrypt them, or --without-keys to restore everything else";
    throw invalid(`Cannot restore: the backup contains ${keys.count} encrypted keys`, undefined, fix);
  }
  const sealed = await readOperatorFile(join(backup, "keys.age"), "the backup's keys");
  if (describeBytes(sealed).sha256 !== keys.sha256) {
    throw badConfig("The backup's keys are damaged: their content has changed");
  }
  const { Decrypter } = await import("age-encryption");
  const decrypter = new Decrypter();
  try {
    for (const identity of identities) decrypter.addIdentity(identity);
    const files = readTar(new Uint8Array(await decrypter.decrypt(sealed)));
    if (files.length !== keys.count) throw new RangeError("the archive has another number of files");
    return files;
  } catch (cause) {
    throw invalid(`Cannot decrypt the backup's keys with --identity: ${errorText(cause)}`, cause);
  }
}

/** Checks if the file exists already, with the same content. */
async function isThere({ path, size, sha256 }: Written): Promise<boolean> {
  const info = await ifThere(Deno.lstat(path));
  if (info === undefined) return false;
  if (info.isFile && info.size === size && (await digestFile(path)).sha256 === sha256) return true;
  throw occupied(path);
}

/** The file gets its name when all of it is written. */
async function write({ path, from, sha256, ...owner }: Written): Promise<void> {
  await Deno.mkdir(dirname(path), { recursive: true, mode: 0o700 });
  const temporary = join(dirname(path), `.${basename(path)}.${systemRandom.bytes(8).toHex()}`);
  try {
    if (typeof from === "string") await copyBytes(from, temporary);
    else await writeFileAtomic(temporary, from);
    // An attacker who can write the backup may have replaced the copy after the check.
    if ((await digestFile(temporary)).sha256 !== sha256) throw changed(path);
    await give(temporary, owner);
    await Deno.rename(temporary, path);
  } catch (error) {
    await Deno.remove(temporary).catch(() => {});
    throw error;
  }
  await syncFolder(path);
}

/** Sets mode and, as root, owner of a new file or directory. A link is not followed. */
async function give(path: string, { mode, uid, gid }: Pick<Written, "mode" | "uid" | "gid">): Promise<void> {
  const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW);
  try {
    if (Deno.uid() === 0) await file.chown(uid, gid);
    await file.chmod(mode);
    await file.sync();
  } finally {
    await file.close();
  }
}

/** Creates missing directories with their former mode and owner; their parents are accessible to the owner only. */
async function makeFolders(folders: NonNullable<BackupManifest["folders"]>, files: readonly string[]) {
  const wanted = new Set(files.map((path) => dirname(path)));
  for (const { path, ...owner } of folders.toSorted((a, b) => a.path.length - b.path.length)) {
    if (!wanted.has(path) || await ifThere(Deno.lstat(path)) !== undefined) continue;
    await Deno.mkdir(path, { recursive: true, mode: 0o700 });
    await give(path, owner);
  }
}

/** Below the directory of `--dir`, no link may lead out of that directory. */
async function refuseLinks(folder: string, path: string): Promise<void> {
  for (let at = dirname(path); at.length > folder.length; at = dirname(at)) {
    if ((await ifThere(Deno.lstat(at)))?.isSymlink !== true) continue;
    throw conflict(`Cannot restore: ${quoteText(at)} is a symbolic link; nothing was written`);
  }
}

/** Rejects anything in the place of a link except the same link. */
async function checkLink(path: string, to: string): Promise<void> {
  const info = await ifThere(Deno.lstat(path));
  if (info === undefined) return;
  const leadsTo = info.isSymlink ? await ifThere(Deno.readLink(path)) : undefined;
  if (leadsTo === undefined || resolve(dirname(path), leadsTo) !== to) throw occupied(path);
}

/** Checks that a log is intact and ends where it ended in the backup. */
async function checkLog({ seq, hash, path: from }: BackupManifest["heads"][number], path: string) {
  const names = await ifThere(Array.fromAsync(Deno.readDir(dirname(path)), ({ name }) => name)) ?? [];
  if (logsOfSet(path, names).length === 0) return hash === "" ? [] : [`${from} is missing`];
  const problems: string[] = [];
  const { head } = await verifyAll({
    path,
    onProblem: ({ file, line, message }) => void problems.push(`${file}: line ${line}: ${message}`),
  });
  if (head.hash !== hash || String(head.seq) !== seq) {
    problems.push(`${path} does not end with record ${seq} as in the backup`);
  }
  return problems;
}
