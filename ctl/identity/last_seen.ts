import { MAX_LINE_BYTES, openLogFile, splitLines } from "@gateway/shared/audit";
import { ifThere, readChunks } from "@gateway/shared/files";
import { readRecord } from "../audit/record.ts";
import { findLastLines } from "../audit/last_lines.ts";

/** So many records of each log are looked at, the newest: a log can have millions. */
const RECORDS = 20_000;

/** When callers were last heard of, by the newest records of these logs; a log that is not there says nothing. */
export async function findLastSeen(logs: readonly string[]): Promise<ReadonlyMap<string, string>> {
  const seen = new Map<string, string>();
  for (const path of logs) {
    await using file = await ifThere(openLogFile(path));
    if (file === undefined) continue;
    const newest = readChunks(file, await findLastLines(file, RECORDS));
    for await (const { bytes, tooLong } of splitLines(newest, MAX_LINE_BYTES)) {
      const record = tooLong || bytes.length === 0 ? undefined : readRecord(bytes)?.record;
      if (record === undefined || record.caller === "") continue;
      if ((seen.get(record.caller) ?? "") < record.time) seen.set(record.caller, record.time);
    }
  }
  return seen;
}
