import { basename, dirname, join, resolve } from "node:path";
import { type ConfigKind, loadConfig } from "@gateway/shared/config";
import { describeReadFailure, followLink, ifThere, openFile, readChunks } from "@gateway/shared/files";
import { isPostgresUrl } from "@gateway/shared/state";
import { quoteText, writeAll } from "@gateway/shared/text";
import * as z from "@zod/zod";
import { CONFIG_KINDS } from "../kit/signer_file.ts";
import { badConfig, conflict } from "../kit/output.ts";
import { createHash } from "node:crypto";
import type { FileHandle } from "node:fs/promises";
import { DatabaseSync } from "node:sqlite";
import { listSegments } from "@gateway/shared/audit";
import type { Clock } from "@gateway/shared/clock";
import { AppError, errorText } from "@gateway/shared/errors";
import { findLastLines, listLogSet } from "../audit/logs.ts";

export type BackupSources = Awaited<ReturnType<typeof findSources>>;

const { signer, controlPlane, broker, client } = CONFIG_KINDS;

/** The configs of an installation by the names that `init` and the packages give them. */
const KINDS: Readonly<Record<string, ConfigKind<object>>> = {
  "signer.json": signer,
  "control-plane.json": controlPlane,
  "config.json": broker,
  "mcp.json": broker,
  "mcp-http.json": broker,
  "broker-ctl.json": client,
  "approval-bridge.json": { what: "identity map", schema: z.record(z.string(), z.string()) },
};

const FILE_KEY = /(?:^|_)(?:cert|key|ca|file|path)$/;
/** Files of variables for the services' units, for example with the tokens of a chat. */
const VARIABLES = /^[a-z][a-z-]*\.env$/;

/** Finds the files that the configs in a directory name. Relative paths are relative to this directory. */
export async function findSources(directory: string) {
  const found = {
    configs: [] as string[],
    auditLogs: [] as string[],
    states: [] as string[],
    deniedCallers: [] as string[],
    policyTests: [] as string[],
    keys: [] as string[],
    /** The files that the configs name and that are missing, or cannot be copied from here. */
    leftOut: [] as string[],
  };
  const others: { readonly key: string; readonly name: string; readonly path: string }[] = [];
  for (const [name, kind] of Object.entries(KINDS)) {
    const path = join(directory, name);
    if (await ifThere(Deno.stat(path)) === undefined) continue;
    found.configs.push(path);
    for (const [key, value] of stringsOf(await loadConfig({ path, ...kind }))) {
      const named = resolve(directory, value);
      if (value === "") continue;
      if (key === "audit_log") found.auditLogs.push(named);
      else if (key === "state_db" && isPostgresUrl(value)) {
        found.leftOut.push(`state of ${name}: it is in PostgreSQL`);
      } else if (key === "state_db") found.states.push(named);
      else if (key === "denied_callers" || key === "policy_tests" || FILE_KEY.test(key)) {
        if ((await ifThere(Deno.stat(named)))?.isFile === true) others.push({ key, name, path: named });
        else if (isPath(value)) found.leftOut.push(`${key} of ${name}: ${named} does not exist`);
      }
    }
  }
  const isRestorable = createIsRestorable(directory, [...found.states, ...found.auditLogs]);
  for (const { key, name, path } of others) {
    if (!isRestorable(path)) {
      found.leftOut.push(`${key} of ${name}: ${path} is outside ${directory}, so copy it yourself`);
    } else if (key === "denied_callers") found.deniedCallers.push(path);
    else if (key === "policy_tests") found.policyTests.push(path);
    else found.keys.push(path);
  }
  found.keys.push(...await filesIn(join(directory, "pki")));
  found.keys.push(...(await filesIn(directory)).filter((path) => VARIABLES.test(basename(path))));
  const once = (paths: readonly string[]) => [...new Set(paths)].sort();
  return {
    configs: found.configs,
    auditLogs: once(found.auditLogs),
    states: once(found.states),
    deniedCallers: once(found.deniedCallers),
    policyTests: once(found.policyTests),
    keys: once(found.keys.filter((path) => !found.deniedCallers.includes(path))),
    leftOut: once(found.leftOut),
  };
}

/**
 * Finds the paths to which a restore may write: below the installation, and below the directories of the state files
 * and audit logs that its configs name. A config itself may also be at the end of a symbolic link, under its own name.
 *
 * @param configs the former place of each config, and the file that holds its content now
 */
export async function findRestorable(
  installation: string,
  configs: readonly { readonly path: string; readonly from: string }[],
): Promise<(path: string) => boolean> {
  const named: string[] = [];
  for (const { path, from } of configs) {
    const kind = KINDS[basename(path)];
    if (kind === undefined) {
      throw badConfig(`Cannot restore ${quoteText(path)}: it is not a config of an installation`);
    }
    for (const [key, value] of stringsOf(await loadConfig({ path: from, ...kind }))) {
      const isLocal = key === "audit_log" || key === "state_db" && !isPostgresUrl(value);
      if (isLocal && value !== "") named.push(resolve(installation, value));
    }
  }
  return createIsRestorable(installation, named);
}

function createIsRestorable(installation: string, dataFiles: readonly string[]): (path: string) => boolean {
  const roots = [installation, ...dataFiles.map((path) => dirname(path))];
  return (path) => roots.some((root) => path.startsWith(root.endsWith("/") ? root : `${root}/`));
}

function stringsOf(value: unknown, key = ""): readonly (readonly [key: string, value: string])[] {
  if (typeof value === "string") return [[key, value]];
  if (typeof value !== "object" || value === null) return [];
  // The broker creates its sockets when it starts.
  return Object.entries(value).filter(([name]) => name !== "sockets").flatMap(([name, member]) =>
    stringsOf(member, Array.isArray(value) ? key : name)
  );
}

/** The value of a `key` member can also be the key itself, or the name of a key in a vault. */
function isPath(text: string): boolean {
  return text.includes("/") && !/\s|:\/\//.test(text);
}

async function filesIn(directory: string): Promise<readonly string[]> {
  const entries = await ifThere(Array.fromAsync(Deno.readDir(directory))) ?? [];
  return entries.filter(({ isFile }) => isFile).map(({ name }) => join(directory, name));
}

const ROOT = 0;
const MAX_ATTEMPTS = 20;
/** Two changes of a file within this time can have the same time in the file system. */
const COARSE_TIME_MS = 50;

export async function digestFile(path: string): Promise<{ readonly sha256: string; readonly size: number }> {
  const hash = createHash("sha256");
  let size = 0;
  await using file = await openFile(path, { followLinks: false });
  for await (const chunk of readChunks(file)) {
    hash.update(chunk);
    size += chunk.length;
  }
  return { sha256: hash.digest("hex"), size };
}

export interface CopiedFile {
  readonly mode: number;
  readonly uid: number;
  readonly gid: number;
  readonly link?: string;
}

/** Copies a file durably; only the owner can read the copy. */
export async function copyBytes(from: string, to: string): Promise<CopiedFile> {
  const { file, real } = await openSource(from);
  await using _file = file;
  using target = await Deno.open(to, { write: true, createNew: true, mode: 0o600 });
  for await (const chunk of readChunks(file)) await writeAll(target, chunk);
  await target.sync();
  return { ...await describeFile(file), ...(real !== from && { link: real }) };
}

export async function readSource(path: string) {
  const { file } = await openSource(path);
  await using _file = file;
  return { ...await describeFile(file), content: new Uint8Array(await file.readFile()) };
}

async function describeFile(file: FileHandle): Promise<CopiedFile> {
  const { mode, uid, gid } = await file.stat();
  return { mode: mode & 0o777, uid, gid };
}

/** Services own directories that root backs up: a link there must not lead to other files, and a pipe must not block root. */
async function openSource(path: string): Promise<{ readonly file: FileHandle; readonly real: string }> {
  const refuse = (why: string) => badConfig(`Cannot copy ${quoteText(path)}: ${why}`);
  const { isSymlink } = await Deno.lstat(path);
  const real = !isSymlink
    ? path
    : Deno.uid() !== ROOT
    ? await Deno.realPath(path)
    : await followLink(path).catch((error) => {
      throw error instanceof Deno.errors.PermissionDenied ? refuse(error.message) : error;
    });
  const file = await openFile(real, { followLinks: false }).catch((cause) => {
    throw cause instanceof Deno.errors.NotFound ? cause : refuse(describeReadFailure(cause));
  });
  return { file, real };
}

/** All files of a log and of the logs of further processes, oldest first. */
async function listLogFiles(log: string): Promise<readonly string[]> {
  const files: string[] = [];
  if (await ifThere(Deno.stat(dirname(log))) === undefined) return files;
  for (const path of await listLogSet(log)) {
    files.push(...(await listSegments(path)).map(({ name }) => join(dirname(path), name)));
    if (await ifThere(Deno.stat(path)) !== undefined) files.push(path);
  }
  return files;
}

export interface LogCopy {
  readonly path: string;
  readonly copy: string;
  readonly copied: CopiedFile;
}

/**
 * Copies a log while it is being written: whole records, and each file once although it may be rotated meanwhile.
 *
 * @param nameCopy names a new copy; it is called again for each attempt
 */
export async function copyLog(log: string, nameCopy: (path: string) => string) {
  for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
    const files = await listLogFiles(log);
    const copies: LogCopy[] = [];
    const problems: string[] = [];
    for (const path of files) {
      const copy = nameCopy(path);
      try {
        const copied = await ifThere(copyBytes(path, copy));
        if (copied === undefined) break;
        await cutAfterLastLine(copy);
        copies.push({ path, copy, copied });
      } catch (error) {
        if (!(error instanceof AppError)) throw error;
        problems.push(error.message);
      }
    }
    const isAll = copies.length + problems.length === files.length;
    if (isAll && (await listLogFiles(log)).join("\n") === files.join("\n")) return { copies, problems };
    for (const { copy } of copies) await Deno.remove(copy);
  }
  return {
    copies: [],
    problems: [`Cannot copy audit log ${quoteText(log)}: it was rotated during every attempt`],
  };
}

/** Removes an incomplete record at the end. */
async function cutAfterLastLine(path: string): Promise<void> {
  await using file = await openFile(path, { write: true, followLinks: false });
  await file.truncate(await findLastLines(file, 0));
  await file.sync();
}

/**
 * Copies a SQLite database that a running service has locked: no other process can open it, but its files can be read.
 * The database file changes only at a checkpoint of its write-ahead log; after a checkpoint, the copy is repeated. The
 * result is one file, and its integrity is checked.
 */
export async function copyDatabase(from: string, to: string, clock: Clock): Promise<CopiedFile> {
  for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
    const start = clock.now();
    const before = await fileStamp(from);
    const copied = await copyBytes(from, to);
    await ifThere(copyBytes(`${from}-wal`, `${to}-wal`));
    if ((await fileStamp(from)).text === before.text && before.changed + COARSE_TIME_MS < start) {
      settle(from, to);
      return copied;
    }
    for (const path of [to, `${to}-wal`]) await ifThere(Deno.remove(path));
    await clock.sleep(COARSE_TIME_MS);
  }
  throw conflict(`Cannot copy state_db ${quoteText(from)}: it changed during every attempt`);
}

/** A text that differs after each checkpoint. */
async function fileStamp(path: string): Promise<{ readonly text: string; readonly changed: number }> {
  const { ino, size, mtime } = await Deno.stat(path);
  const changed = mtime?.getTime() ?? 0;
  return { text: [ino, size, changed, await saltOf(`${path}-wal`)].join(" "), changed };
}

/** The header of a write-ahead log, which has new salts after each restart of the log. */
async function saltOf(path: string): Promise<string> {
  const source = await ifThere(openSource(path));
  if (source === undefined) return "";
  const header = new Uint8Array(32);
  const { bytesRead } = await source.file.read(header, 0, header.length).finally(() => source.file.close());
  return header.subarray(0, bytesRead).toHex();
}

/** Merges the write-ahead log into the copy, and checks its integrity. */
function settle(from: string, path: string): void {
  try {
    using database = new DatabaseSync(path);
    const [check] = Object.values(database.prepare("PRAGMA integrity_check(1)").get() ?? {});
    if (check !== "ok") throw new Error(String(check));
    database.exec("PRAGMA journal_mode = DELETE");
  } catch (cause) {
    const why = errorText(cause);
    throw badConfig(`State ${quoteText(basename(from))} is damaged: ${why}`, cause);
  }
}
