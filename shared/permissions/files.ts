/**
 * What a service's files need: the audit log and its folder, what it reads, the state database.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { filePermissions } from "@gateway/shared/permissions/files";
 *
 * const set = filePermissions({
 *   workingFolder: "/srv",
 *   auditLog: "log/audit.log",
 *   files: { audit_key: "audit.seed" },
 * });
 * assert.deepEqual(set, { read: ["/srv/audit.seed", "/srv/log"], write: ["/srv/log"] });
 * ```
 *
 * @module
 */
import { dirname, isAbsolute, resolve, sep } from "node:path";
import { AppError } from "../errors.ts";
import { mergeSets, type PermissionSet } from "./set.ts";

/** The files of one service. */
export interface ServiceFiles {
  /** The absolute folder that relative paths start from. */
  readonly workingFolder: string;
  /** The path of the audit log. */
  readonly auditLog: string;
  /** Paths of the files it reads, by the config key that names them; an empty path means no file. */
  readonly files: Readonly<Record<string, string>>;
  /** Folders that it creates files in and reads nothing from, by config key; an empty path means no folder. */
  readonly outputFolders?: Readonly<Record<string, string>>;
}

/**
 * Read for the files, read and write for the audit log's folder: rotation renames the log and creates files
 * beside it. Write for the folders of its output. Files that the service reads stay read-only when they lie in a
 * folder that it writes to.
 *
 * @throws {AppError} `invalid_config` when a folder is the root of the file system, or a file is the log or
 *   its folder
 */
export function filePermissions(options: ServiceFiles): PermissionSet {
  const { workingFolder } = options;
  if (!isAbsolute(workingFolder)) {
    throw new TypeError(`workingFolder must be absolute: ${JSON.stringify(workingFolder)}`);
  }
  const log = resolve(workingFolder, options.auditLog);
  const folder = dirname(log);
  if (dirname(folder) === folder) {
    throw new AppError(
      "invalid_config",
      `Cannot use audit_log ${JSON.stringify(log)}: it needs a folder of its own`,
    );
  }
  const files = Object.entries(options.files).filter(([, path]) => path !== "")
    .map(([key, path]) => [key, resolve(workingFolder, path)] as const);
  for (const [key, path] of files) {
    if (path === log || path === folder) {
      throw new AppError(
        "invalid_config",
        `Cannot use ${key} ${JSON.stringify(path)}: it is the audit log or its folder`,
      );
    }
  }
  const paths = files.map(([, path]) => path);
  const write = [folder, ...resolveFolders(options)];
  return mergeSets({
    read: [...paths, folder],
    write,
    denyWrite: paths.filter((path) => write.some((written) => path.startsWith(written + sep))),
  });
}

function resolveFolders({ workingFolder, outputFolders = {} }: ServiceFiles): readonly string[] {
  return Object.entries(outputFolders).filter(([, path]) => path !== "").map(([key, path]) => {
    const folder = resolve(workingFolder, path);
    if (dirname(folder) !== folder) return folder;
    throw new AppError(
      "invalid_config",
      `Cannot use ${key} ${JSON.stringify(folder)}: it is the root of the file system`,
    );
  });
}

/**
 * The state database alone: SQLite's own files beside it are below what Deno looks at.
 *
 * @param state_db the path as in the config; nothing for an empty one
 * @param workingFolder the absolute folder that relative paths start from
 */
export function stateFilePermissions(state_db: string, workingFolder: string): PermissionSet {
  if (state_db === "") return {};
  const path = resolve(workingFolder, state_db);
  return { read: [path], write: [path] };
}
