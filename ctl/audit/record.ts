import * as z from "@zod/zod";
import { parseLine, readOldCommand } from "@gateway/shared/audit";
import { parseJson } from "@gateway/shared/json";
import { EMPTY_CELL, formatRow, INDENT, shortenText } from "../kit/table.ts";

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
// The host is last, because only hosts can be long.
const NARROW_TITLES = ["TIME", "SEQ", "OUTCOME", "CALLER", "HOST"];
const NARROW_WIDTHS = [20, 6, 14, 14];
const INSTANCE_WIDTH = 16;
/** On a narrower terminal, the detail gets a separate line. */
const ENOUGH_COLUMNS = 160;

export function createRecordTable({ columns = Infinity, full, instances = false }: {
  /** Undefined: unlimited. */
  readonly columns: number | undefined;
  /** Long commands and messages are not truncated. */
  readonly full: boolean;
  /** The first column shows the instance. */
  readonly instances?: boolean;
}) {
  const show = full ? (text: string) => text : shortenText;
  const isNarrow = columns - (instances ? INSTANCE_WIDTH : 0) < ENOUGH_COLUMNS;
  const named = (name: string, line: string) =>
    instances ? formatRow([name, line], [INSTANCE_WIDTH - 2]) : line;
  return {
    heading: named(
      "INSTANCE",
      isNarrow ? formatRow(NARROW_TITLES, NARROW_WIDTHS) : formatRow(TITLES, WIDTHS),
    ),
    format(record: ShownRecord, instance = ""): readonly string[] {
      const { caller, host, outcome } = record;
      const [time, seq] = [shortTime(record.time), record.seq.toString()];
      const serial = record.serial === 0n ? "" : record.serial.toString();
      const detail = describe(record, show);
      if (!isNarrow) {
        const cells = [time, seq, caller, host, outcome, serial].map(orDash);
        return [named(orDash(instance), formatRow([...cells, detail], WIDTHS))];
      }
      const row = formatRow([time, seq, outcome, caller, host].map(orDash), NARROW_WIDTHS);
      const facts = [serial && `[serial: ${serial}]`, detail].filter(Boolean).join(" ");
      return [named(orDash(instance), row), ...(facts === "" ? [] : [`${INDENT}${facts}`])];
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
    tag("policy", record.policy_version === 0 ? "" : `${record.policy_version}`),
    tag("request", record.request_id),
  ].filter((part) => part !== "").join(" ");
}
