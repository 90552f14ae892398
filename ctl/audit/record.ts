import * as z from "@zod/zod";
import { parseLine, readOldCommand } from "@gateway/shared/audit";
import { parseJson } from "@gateway/shared/json";

/** What is shown of an audit record. */
export interface ShownRecord {
  readonly time: string;
  readonly seq: bigint;
  readonly caller: string;
  readonly host: string;
  readonly outcome: string;
  readonly serial: bigint;
  /** `k8s`: it is about a cluster. */
  readonly target_type: string;
  /** Without the request's ID, which old records have at its end. */
  readonly command: string;
  readonly session_id: string;
  readonly elevation: string;
  readonly pty: boolean;
  readonly policy_rule: string;
  readonly dry_run: boolean;
  readonly approved_by: string;
  readonly anomaly: string;
  readonly warning: string;
  readonly err: string;
  /** What follows is of the object `ext`. */
  readonly command_line: string;
  readonly request_id: string;
  readonly host_name: string;
  readonly policy_version: number;
  readonly reason: string;
  readonly jti: string;
}

const text = z.string().default("");
const flag = z.boolean().default(false);
const integer = z.union([z.int(), z.bigint()]).default(0).transform(BigInt);

const ext = z.object({
  command_line: text,
  request_id: text,
  session_id: text,
  host_name: text,
  policy_version: z.int().default(0),
  reason: text,
  jti: text,
});
const NO_EXT = ext.parse({});

const shownRecord: z.ZodType<ShownRecord> = z.object({
  time: text,
  seq: integer,
  caller: text,
  host: text,
  outcome: text,
  serial: integer,
  target_type: text,
  command: text,
  session_id: text,
  elevation: text,
  pty: flag,
  policy_rule: text,
  dry_run: flag,
  approved_by: text,
  anomaly: text,
  warning: text,
  err: text,
  ext: ext.optional(),
}).transform(({ ext, ...record }) =>
  ext === undefined
    ? { ...NO_EXT, ...record, ...readOldCommand(record.command) }
    : { ...record, ...ext, session_id: record.session_id || ext.session_id }
);

const DECODER = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** A line of a log, as text and taken apart. */
export interface LogRecord {
  readonly text: string;
  readonly record: ShownRecord;
  /** Whose log it stands in, where several instances' are read. */
  readonly instance?: string;
}

/** Reads a line without its newline; undefined when it is not a record. Signatures are not checked. */
export function readRecord(line: Uint8Array): LogRecord | undefined {
  if (parseLine(line) === undefined) return undefined;
  const text = DECODER.decode(line);
  const { data: record } = shownRecord.safeParse(parseJson(text));
  return record === undefined ? undefined : { text, record };
}
