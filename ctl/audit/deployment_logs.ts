import { dirname, join } from "node:path";
import { listSegments, logsOfSet } from "@gateway/shared/audit";
import { AppError } from "@gateway/shared/errors";
import { ifThere } from "@gateway/shared/files";
import { quoteText } from "@gateway/shared/text";

/** What each instance's log is called in its folder. */
export const LOG_NAME = "audit.log";

interface InstanceLog {
  readonly instance: string;
  readonly path: string;
}

/**
 * The logs in a folder that has a folder for each instance, named after it, by name. What is a link instead is not
 * followed: it could show one log under two names.
 *
 * @throws {AppError} `not_found` when there is no such folder, `invalid_config` when a link is in it
 */
export async function listDeploymentLogs(folder: string): Promise<readonly InstanceLog[]> {
  const entries = await ifThere(Array.fromAsync(Deno.readDir(folder)));
  if (entries === undefined) {
    throw new AppError("not_found", `Cannot read folder of audit logs ${quoteText(folder)}: no such folder`);
  }
  const logs: InstanceLog[] = [];
  for (const { name, isDirectory, isSymlink } of entries) {
    const path = join(folder, name);
    if (isSymlink) throw refuseLink(path);
    if (!isDirectory) continue;
    const log = join(path, LOG_NAME);
    const info = await ifThere(Deno.lstat(log));
    if (info?.isSymlink === true) throw refuseLink(log);
    // Right after a rotation there is none but those that were rotated away.
    if (info !== undefined || (await listSegments(log)).length > 0) logs.push({ instance: name, path: log });
  }
  return logs.sort((one, other) => one.instance < other.instance ? -1 : 1);
}

function refuseLink(path: string): AppError {
  return new AppError(
    "invalid_config",
    `Cannot use ${quoteText(path)}: it is a link; put the log itself into the folder`,
  );
}

/** The paths of a log and of those beside it that are there; the log's own when there is none at all. */
export async function listLogSet(path: string): Promise<readonly string[]> {
  const names = await ifThere(Array.fromAsync(Deno.readDir(dirname(path)), ({ name }) => name)) ?? [];
  const logs = logsOfSet(path, names);
  return logs.length === 0 ? [path] : logs;
}
