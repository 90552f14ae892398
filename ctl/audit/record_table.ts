import { EMPTY_CELL, formatRow, INDENT, shortenText } from "../kit/table.ts";
import type { ShownRecord } from "./record.ts";

interface RecordTableOptions {
  /** What the terminal has; undefined: as many as it takes. */
  readonly columns: number | undefined;
  /** Long commands and messages are not cut. */
  readonly full: boolean;
  /** Records are of several instances, whose names stand first. */
  readonly instances?: boolean;
}

/** Records as rows of a table, one after the other: its columns fit most records. */
interface RecordTable {
  readonly heading: string;
  /** One line; two where the terminal is too narrow to put the detail beside the rest. */
  readonly format: (record: ShownRecord, instance?: string) => readonly string[];
}

const TITLES = ["TIME", "SEQ", "CALLER", "HOST", "OUTCOME", "SERIAL", "DETAIL"];
const WIDTHS = [20, 6, 14, 20, 14, 20];
// The host last: it alone can be long, and nothing stands behind it that it could push aside.
const NARROW_TITLES = ["TIME", "SEQ", "OUTCOME", "CALLER", "HOST"];
const INSTANCE_WIDTH = 16;
const NARROW_WIDTHS = [20, 6, 14, 14];
/** With less than this the detail would be broken into pieces of a few characters. */
const ENOUGH_COLUMNS = 160;

export function createRecordTable({ instances = false, ...options }: RecordTableOptions): RecordTable {
  if (!instances) return createTable(options);
  const { columns } = options;
  const table = createTable({ ...options, columns: columns && columns - INSTANCE_WIDTH });
  const named = (name: string, line: string) => formatRow([name, line], [INSTANCE_WIDTH - 2]);
  return {
    heading: named("INSTANCE", table.heading),
    format: (record, instance = "") => {
      const [first = "", ...more] = table.format(record);
      return [named(orDash(instance), first), ...more];
    },
  };
}

function createTable({ columns = Infinity, full }: RecordTableOptions): RecordTable {
  const show = full ? (text: string) => text : shortenText;
  if (columns < ENOUGH_COLUMNS) {
    return {
      heading: formatRow(NARROW_TITLES, NARROW_WIDTHS),
      format: (record) => formatNarrow(record, describe(record, show)),
    };
  }
  return {
    heading: formatRow(TITLES, WIDTHS),
    format: (record) => {
      const { caller, host, outcome } = record;
      const serial = record.serial === 0n ? "" : record.serial.toString();
      const cells = [timeOf(record), record.seq.toString(), caller, host, outcome, serial].map(orDash);
      return [formatRow([...cells, describe(record, show)], WIDTHS)];
    },
  };
}

function formatNarrow(record: ShownRecord, detail: string): readonly string[] {
  const { seq, outcome, caller, host, serial } = record;
  const row = [timeOf(record), seq.toString(), outcome, caller, host].map(orDash);
  const facts = [...(serial === 0n ? [] : [`[serial: ${serial}]`]), ...(detail === "" ? [] : [detail])];
  return [
    formatRow(row, NARROW_WIDTHS),
    ...(facts.length === 0 ? [] : [`${INDENT}${facts.join(" ")}`]),
  ];
}

/** Without fractions of a second. */
function timeOf({ time }: ShownRecord): string {
  return time.replace(/\.\d+Z$/, "Z");
}

function orDash(cell: string): string {
  return cell || EMPTY_CELL;
}

function describe(record: ShownRecord, show: (text: string) => string): string {
  const tag = (name: string, value: string) => value === "" ? [] : [`[${name}: ${show(value)}]`];
  return [
    ...(record.command === "" ? [] : [show(record.command)]),
    ...tag("command", record.command_line),
    ...tag("session", record.session_id),
    ...tag("host", record.host_name === record.host ? "" : record.host_name),
    ...(record.elevation === "" ? [] : [`[${record.elevation}]`]),
    ...(record.pty ? ["[pty]"] : []),
    ...tag("rule", record.policy_rule),
    ...(record.dry_run ? ["[dry-run]"] : []),
    ...tag("approved-by", record.approved_by),
    ...tag("anomaly", record.anomaly),
    ...tag("warning", record.warning),
    ...tag("err", record.err),
    ...tag("reason", record.reason),
    ...tag("policy", record.policy_version === 0 ? "" : `${record.policy_version}`),
    ...tag("request", record.request_id),
  ].join(" ");
}
