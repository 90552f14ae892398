import * as z from "@zod/zod";
import { parseLine, readOldCommand } from "@gateway/shared/audit";
import { parseJson } from "@gateway/shared/json";
import { EMPTY_CELL, fit, formatRow, shortenText, timeCell } from "../kit/table.ts";

const text = z.string().default("");
const flag = z.boolean().default(false);
const integer = z.union([z.int(), z.bigint()]).default(0).transform(BigInt);

const ext = z.object({
  command_line: text,
  request_id: text,
  session_id: text,
  host_name: text,
  addr: text,
  end_user: text,
  content_sha256: text,
  policy_version: z.int().default(0),
  reason: text,
  jti: text,
});
const NO_EXT = ext.parse({});

const shownRecord = z.object({
  time: text,
  seq: integer,
  caller: text,
  host: text,
  user: text,
  principal: text,
  outcome: text,
  serial: integer,
  // `k8s` for a cluster.
  target_type: text,
  command: text,
  session_id: text,
  body_sha256: text,
  elevation: text,
  pty: flag,
  policy_rule: text,
  dry_run: flag,
  approval_id: text,
  approved_by: text,
  anomaly: text,
  warning: text,
  err: text,
  ext: ext.optional(),
}).transform(({ ext, ...record }) =>
  // Old records have the ID of the request at the end of the command.
  ext === undefined
    ? { ...NO_EXT, ...record, ...readOldCommand(record.command) }
    : { ...record, ...ext, session_id: record.session_id || ext.session_id }
).transform((record) => ({ ...record, who: record.end_user || endUserOf(record) || record.caller }));

const DESCRIBED =
  /^(?:role=\S+ purpose=\S+(?: session_mode=\S+)?|target=k8s verb=\S+ resource=\S+ ns=\S+ name=\S+) user=(\S+)/;

/**
 * The end user in the signer's description of a request. A command that an agent chose can look like a description, but
 * its record has neither a principal nor a separate command.
 */
function endUserOf(
  { command, command_line, principal }: Record<"command" | "command_line" | "principal", string>,
) {
  return command_line || principal ? DESCRIBED.exec(command)?.[1] : undefined;
}

export type ShownRecord = z.infer<typeof shownRecord>;

export interface LogRecord {
  readonly text: string;
  readonly record: ShownRecord;
  /** The instance whose log has the record, if several logs are read. */
  readonly instance?: string;
}

const DECODER = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Reads a line without its newline; undefined for a line that is not a record. Signatures are not checked. */
export function readRecord(line: Uint8Array): LogRecord | undefined {
  if (parseLine(line) === undefined) return undefined;
  const text = DECODER.decode(line);
  const { data: record } = shownRecord.safeParse(parseJson(text));
  return record === undefined ? undefined : { text, record };
}

const TITLES = ["TIME", "SEQ", "CALLER", "HOST", "OUTCOME", "SERIAL", "DETAIL"];
const WIDTHS = [20, 6, 14, 20, 14, 20];
const INSTANCE_WIDTH = 14;
const SHORT_TITLES = ["TIME", "WHO", "HOST", "WHAT", "RESULT"];
const [TIME_WIDTH, NAME_WIDTH, RESULT_WIDTH, GAPS] = [8, 12, 17, 8];
const NARROWEST = 80;

interface TableOptions {
  /** Long commands and messages are not truncated. */
  readonly full: boolean;
  /** The first column shows the instance. */
  readonly instances?: boolean;
}

/** A table with every detail of a record on one line. */
export function createRecordTable({ full, instances = false }: TableOptions) {
  const show = full ? (text: string) => text : shortenText;
  const named = (name: string, line: string) => instances ? formatRow([name, line], [INSTANCE_WIDTH]) : line;
  return {
    heading: named("INSTANCE", formatRow(TITLES, WIDTHS)),
    format(record: ShownRecord, instance = ""): string {
      const { caller, host, outcome } = record;
      const serial = record.serial === 0n ? "" : record.serial.toString();
      const cells = [shortTime(record.time), record.seq.toString(), caller, host, outcome, serial].map(
        orDash,
      );
      return named(orDash(instance), formatRow([...cells, describe(record, show)], WIDTHS));
    },
  };
}

/** A table for a terminal. @param now shows ages instead of times of day */
export function createShortTable(
  { full }: TableOptions,
  columns = NARROWEST,
  now?: number,
): ReturnType<typeof createRecordTable> {
  const wider = Math.max(0, Math.floor((columns - NARROWEST) / 8));
  const names = NAME_WIDTH + Math.min(wider, NAME_WIDTH);
  const what = Math.max(columns, NARROWEST) - TIME_WIDTH - 2 * names - RESULT_WIDTH - GAPS;
  const row = ([time = "", who = "", host = "", command = "", result = ""]: readonly string[]) => {
    const left = what - Math.max(0, result.length - RESULT_WIDTH);
    const cells = full ? [who, host, command] : [fit(who, names), fit(host, names), fit(command, left)];
    return formatRow([time, ...cells, result], [TIME_WIDTH, names, names, left]);
  };
  return {
    heading: row(SHORT_TITLES),
    format: ({ time, who, host_name, host, command_line, command, outcome }) =>
      row([formatAge(time, now), who, host_name || host, command_line || command, outcome].map(orDash)),
  };
}

function formatAge(time: string, now?: number): string {
  return now === undefined ? time.slice(11, 19) : timeCell(time, Math.max(now, Date.parse(time))).text;
}

export function shortTime(time: string): string {
  return time.replace(/\.\d+Z$/, "Z");
}

function orDash(cell: string): string {
  return cell || EMPTY_CELL;
}

function describe(record: ShownRecord, show: (text: string) => string): string {
  const tag = (name: string, value: string) => value === "" ? "" : `[${name}: ${show(value)}]`;
  return [
    show(record.command),
    tag("command", record.command_line),
    tag("session", record.session_id),
    tag("host", record.host_name === record.host ? "" : record.host_name),
    record.elevation && `[${record.elevation}]`,
    record.pty ? "[pty]" : "",
    tag("rule", record.policy_rule),
    record.dry_run ? "[dry-run]" : "",
    tag("approved-by", record.approved_by),
    tag("anomaly", record.anomaly),
    tag("warning", record.warning),
    tag("err", record.err),
    tag("reason", record.reason),
    tag("user", record.end_user),
    tag("sha256", record.body_sha256 || record.content_sha256),
    tag("approval", record.approval_id),
    tag("policy", record.policy_version === 0 ? "" : `${record.policy_version}`),
    tag("request", record.request_id),
  ].filter((part) => part !== "").join(" ");
}
