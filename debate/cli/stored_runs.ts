import { writeFileAtomic } from "@gateway/shared/files";
import { AppError, errorName } from "@gateway/shared/errors";
import { openToRead } from "../runs/disk_folder.ts";
import { readListItem, readStoredRun, type StoredRun } from "../runs/store.ts";
import { byTime, formatRecord, type RunListItem, type RunRecord } from "../runs/record.ts";

const RECORD = /^([0-9a-f]{32})\.json$/;
/** So that a slip does not name somebody else's run. */
const MIN_PREFIX = 4;

/** Adds a record. A disk that is full does not take the result away from whoever sees it. */
export async function storeRecord(
  folder: string,
  record: RunRecord,
  note: (text: string) => void,
): Promise<void> {
  try {
    await writeFileAtomic(`${folder}/${record.run_id}.json`, new TextEncoder().encode(formatRecord(record)), {
      mode: 0o600,
    });
    note(`stored as ${record.run_id.slice(0, 8)}; debate runs show ${record.run_id.slice(0, 8)}`);
  } catch (error) {
    note(`the record could not be stored: ${errorName(error)}`);
  }
}

async function listIds(folder: string): Promise<readonly string[]> {
  const ids: string[] = [];
  try {
    for await (const { name, isFile } of Deno.readDir(folder)) {
      const [, id] = RECORD.exec(name) ?? [];
      if (isFile && id !== undefined) ids.push(id);
    }
  } catch (cause) {
    if (cause instanceof Deno.errors.NotFound) return [];
    throw new AppError("invalid_config", `Cannot read DATA_DIR ${JSON.stringify(folder)}`, { cause });
  }
  return ids.sort();
}

/** All runs that can be read, newest first; of each file only the beginning is read. */
export async function readRuns(folder: string): Promise<readonly RunListItem[]> {
  const items: RunListItem[] = [];
  const files = openToRead(folder);
  for (const id of await listIds(folder)) {
    const item = await readListItem(files, id).catch(() => undefined);
    if (item !== undefined && item !== "missing") items.push(item);
  }
  return items.sort(byTime);
}

export async function readRun(folder: string, prefix: string): Promise<StoredRun> {
  const shown = JSON.stringify(prefix.slice(0, 40));
  if (!/^[0-9a-f]+$/.test(prefix) || prefix.length < MIN_PREFIX) {
    throw new AppError("invalid_request", `Not the id of a run, or its first ${MIN_PREFIX} digits: ${shown}`);
  }
  const [id, other] = (await listIds(folder)).filter((each) => each.startsWith(prefix));
  if (id === undefined) throw new AppError("not_found", `There is no run ${shown}: see debate runs list`);
  if (other !== undefined) {
    throw new AppError("not_found", `Several runs begin with ${shown}: give more of the id`);
  }
  const stored = await readFile(folder, id);
  if (stored !== undefined) return stored;
  throw new AppError("not_found", `The record of run ${shown} is damaged and cannot be read`);
}

async function readFile(folder: string, id: string): Promise<StoredRun | undefined> {
  try {
    return readStoredRun(id, await Deno.readTextFile(`${folder}/${id}.json`));
  } catch {
    return undefined;
  }
}
