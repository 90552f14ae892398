/**
 * A record as its file has it, for those who show it.
 *
 * @module
 */
import { parseStandardJson } from "@gateway/shared/json";
import { isObject } from "../engine/graph/json_objects.ts";
import { withoutForeignClaims } from "./foreign.ts";
import { formatRecord, type ReadRecord, readRecord } from "./record.ts";

export interface StoredRun {
  /** The JSON of the file; of an imported run, without what only this server can know. */
  readonly text: string;
  readonly record: ReadRecord;
}

/** Reads the text of a record's file; `undefined` if it is damaged. */
export function readStoredRun(runId: string, text: string): StoredRun | undefined {
  const value = parseJson(text);
  const record = readRecord(runId, value);
  if (record === undefined || !isObject(value)) return undefined;
  return { text: record.imported ? formatRecord(withoutForeignClaims(value)) : text, record };
}

/** The JSON value of a text; `undefined` if it is damaged. */
export function parseJson(text: string): unknown {
  try {
    return parseStandardJson(text);
  } catch {
    return undefined;
  }
}
