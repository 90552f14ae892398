import * as z from "@zod/zod";
import { parseLine, readOldCommand } from "@gateway/shared/audit";
import { parseJson } from "@gateway/shared/json";
import { each } from "@gateway/shared/wire";
import { EMPTY_CELL, fit, formatRow, shortenText, timeCell, titleCells } from "../kit/table.ts";

const text = z.string().default("");
const flag = z.boolean().default(false);
const integer = z.union([z.int(), z.bigint()]).default(0).transform(BigInt);

const ext = z.object({
  ...each(text, "command_line", "command_sha256", "request_id", "session_id", "host_name", "addr"),
  ...each(text, "end_user", "content_sha256", "reason", "jti", "decision"),
  policy_version: z.int().default(0),
});
const NO_EXT = ext.parse({});

const shownRecord = z.object({
  ...each(text, "time", "caller", "host", "user", "principal", "outcome", "command", "session_id"),
  ...each(text, "body_sha256", "elevation", "policy_rule", "approval_id", "approved_by"),
  ...each(text, "anomaly", "warning", "err"),
  // `k8s` for a cluster.
  target_type: text,
  ...each(integer, "seq", "serial"),
  ...each(flag, "pty", "dry_run"),
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
  readonly color?: boolean;
}

/** A table with every detail of a record on one line. */
export function createRecordTable({ full, instances = false, color }: TableOptions) {
  const show = full ? (text: string) => text : shortenText;
  const titles = [...instances ? ["INSTANCE"] : [], ...TITLES];
  const widths = [...instances ? [INSTANCE_WIDTH] : [], ...WIDTHS];
  return {
    heading: formatRow(titleCells(titles), widths, titles, color),
    format(record: ShownRecord, instance = ""): string {
      const { caller, host, outcome } = record;
      const serial = record.serial === 0n ? "" : record.serial.toString();
      const time = { text: shortTime(record.time) || EMPTY_CELL, role: "dim" } as const;
      const facts = [record.seq.toString(), caller, host, outcome, serial].map(orDash);
      const cells = [...instances ? [orDash(instance)] : [], time, ...facts, describe(record, show)];
      return formatRow(cells, widths, titles, color);
    },
  };
}

/** A table for a terminal. @param now shows ages instead of times of day */
export function createShortTable(
  { full, color }: TableOptions,
  columns = NARROWEST,
  now?: number,
): ReturnType<typeof createRecordTable> {
  const wider = Math.max(0, Math.floor((columns - NARROWEST) / 8));
  const names = NAME_WIDTH + Math.min(wider, NAME_WIDTH);
  const what = Math.max(columns, NARROWEST) - TIME_WIDTH - 2 * names - RESULT_WIDTH - GAPS;
  const widths = [TIME_WIDTH, names, names, what];
  return {
    heading: formatRow(titleCells(SHORT_TITLES), widths, SHORT_TITLES, color),
    format({ time, who, host_name, host, command_line, command, outcome }) {
      const room = widths.with(3, what - Math.max(0, outcome.length - RESULT_WIDTH));
      const facts = [who, host_name || host, command_line || command].map(orDash)
        .map((text, index) => full ? text : fit(text, room[index + 1] ?? 0));
      const age = now === undefined
        ? { text: time.slice(11, 19), role: "dim" } as const
        : timeCell(time, Math.max(now, Date.parse(time)));
      const cells = [age.text === "" ? EMPTY_CELL : age, ...facts, orDash(outcome)];
      return formatRow(cells, room, SHORT_TITLES, color);
    },
  };
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
