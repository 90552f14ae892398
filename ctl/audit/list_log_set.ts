import { dirname } from "node:path";
import { logsOfSet } from "@gateway/shared/audit";
import { ifThere } from "@gateway/shared/files";

/** The paths of a log and of those beside it that are there; the log's own when there is none at all. */
export async function listLogSet(path: string): Promise<readonly string[]> {
  const names = await ifThere(Array.fromAsync(Deno.readDir(dirname(path)), ({ name }) => name)) ?? [];
  const logs = logsOfSet(path, names);
  return logs.length === 0 ? [path] : logs;
}
