/**
 * The entry of a list for a record's file, without reading all of it.
 *
 * @module
 */
import type { Folder } from "./folder.ts";
import { parseHead, type RunListItem, toListItem } from "./record.ts";
import { parseJson } from "./stored_run.ts";

/** Enough for the header of all but the most talkative topics. */
const HEAD_BYTES = 8192;
const DECODER = new TextDecoder();

/**
 * Reads the header from the first bytes of a file, or where they do not hold it, from all of it.
 *
 * @returns `undefined` when it is not a record; the reason `"missing"` when there is no such file
 * @throws what the folder reports
 */
export async function readListItem(
  folder: Pick<Folder, "read" | "readEnds">,
  runId: string,
): Promise<RunListItem | "missing" | undefined> {
  const name = `${runId}.json`;
  const ends = await folder.readEnds(name, HEAD_BYTES);
  if (ends === undefined) return "missing";
  const isWhole = DECODER.decode(ends.tail).trimEnd().endsWith("}");
  const header = isWhole ? parseHead(DECODER.decode(ends.head)) : undefined;
  return toListItem(runId, header ?? parseJson(DECODER.decode(await folder.read(name))));
}
