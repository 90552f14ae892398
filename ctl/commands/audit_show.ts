import { dirname, join, resolve } from "node:path";
import { MAX_LINE_BYTES } from "@gateway/shared/audit/record";
import { AppError } from "@gateway/shared/errors";
import { ifThere } from "@gateway/shared/files";
import { quoteText } from "@gateway/shared/quote";
import { splitLines } from "@gateway/shared/audit/lines";
import { listSegments } from "@gateway/shared/audit/segments";
import { countOf, once } from "../arguments.ts";
import { listLogSet } from "../audit/list_log_set.ts";
import { createFilter, type FilterFlags } from "../audit/filter.ts";
import { mergeByTime } from "../audit/merge_by_time.ts";
import { type LogRecord, readRecord } from "../audit/record.ts";
import { createRecordTable } from "../audit/record_table.ts";
import type { AddCommand, CommandContext } from "../context.ts";
import type { LineWriter } from "../output.ts";

interface ShowFlags extends FilterFlags {
  readonly log: string;
  readonly all?: boolean;
  readonly set?: boolean;
  readonly full?: boolean;
  readonly limit?: number;
}

const MAX_LIMIT = 100_000;

const EXAMPLES = `
Examples:
  broker-ctl audit show --log log/signer/audit.log --host 10.0.0.5 --since 2026-01-31
  broker-ctl audit show --log log/signer/audit.log --outcome denied --limit 20
  broker-ctl audit show --log log/control-plane/audit.log --all --outcome approval-granted
  broker-ctl audit show --log log/broker/audit.log --serial 9223372036854775808 --json
  broker-ctl audit show --log log/signer/audit.log --request 0b9b35a2-3cd5-4b7e-9a2f-6f0a3c1d2e4f

One file, or with --all the rotated ones before it, oldest first. --set is for a broker over stdio, of which several
processes may run, each with a log of its own (audit-2.log, audit-3.log …). Nothing is verified: that is
broker-ctl audit verify.
Control characters are shown as text, and commands of more than 400 characters are cut, which their end says;
--full shows all of them, --json gives the records one a line.
`;

/** `audit show`: the records of a log, chosen by what is in them. */
export const addShow: AddCommand = (audit, context) => {
  audit.command("show")
    .description("Show the records of an audit log.")
    .requiredOption("--log <file>", "the audit log", once)
    .option("--all", "the rotated files too")
    .option("--set", "the logs of further processes beside it too, by time")
    .option("--host <text>", "records whose host contains this", once)
    .option("--caller <text>", "records whose caller contains this", once)
    .option("--outcome <outcome>", "records of this outcome", once)
    .option("--serial <number>", "records of this certificate", once)
    .option("--request <id>", "records of this request (request_id of an answer or a log line)", once)
    .option("--since <time>", "records from this time on, RFC 3339 or a day (UTC)", once)
    .option("--limit <count>", "how many of the newest (default: all)", countOf(1, MAX_LIMIT))
    .option("--full", "long commands and messages whole")
    .addHelpText("after", EXAMPLES)
    .action((flags: ShowFlags, command) =>
      context.stream(command, [], (writer) => show(flags, writer, context))
    );
};

async function show(flags: ShowFlags, writer: LineWriter, context: CommandContext): Promise<void> {
  const matches = createFilter(flags);
  const table = createRecordTable({ columns: context.terminal.columns, full: flags.full === true });
  let [shown, malformed] = [0, 0];
  const write = ({ text, record }: LogRecord) => {
    if (!writer.json && shown === 0) writer.line(table.heading);
    shown++;
    for (const line of writer.json ? [text] : table.format(record)) writer.line(line);
  };
  // With a limit, a ring: the newest that matches takes the place of the oldest.
  const ring: LogRecord[] = [];
  let matched = 0;
  const { limit } = flags;
  const path = resolve(context.workingFolder, flags.log);
  const readLog = async (log: string) => flags.all === true ? readAll(log) : readFile(await openLog(log));
  const logs = await Promise.all((flags.set === true ? await listLogSet(path) : [path]).map(readLog));
  for await (const record of mergeByTime(logs)) {
    if (record === undefined) malformed++;
    else if (!matches(record.record)) continue;
    else if (limit === undefined) write(record);
    else ring[matched++ % limit] = record;
  }
  const oldest = limit === undefined ? 0 : matched % limit;
  for (const record of [...ring.slice(oldest), ...ring.slice(0, oldest)]) write(record);
  if (shown === 0) writer.note("(no matching entries)");
  if (malformed > 0) writer.note(`${malformed} malformed line(s) skipped; see broker-ctl audit verify`);
}

/** The records of a log and of what was rotated away from it, oldest first. */
async function* readAll(path: string): AsyncGenerator<LogRecord | undefined> {
  // The log first: when it is rotated away after this, it is among the rotated files too, and told by that.
  const log = await ifThere(Deno.open(path, { read: true }));
  const identity = log && await identify(log);
  const names = await ifThere(listSegments(path)) ?? [];
  if (log === undefined && names.length === 0) throw missing(path);
  for (const { name } of names) {
    const segment = await openLog(join(dirname(path), name));
    if (await identify(segment) === identity) segment.close();
    else yield* readFile(segment);
  }
  if (log !== undefined) yield* readFile(log);
}

/** Each line as a record, or undefined when it is not one. */
async function* readFile(file: Deno.FsFile): AsyncGenerator<LogRecord | undefined> {
  for await (const { bytes, tooLong } of splitLines(file.readable, MAX_LINE_BYTES)) {
    if (bytes.length > 0) yield tooLong ? undefined : readRecord(bytes);
  }
}

async function openLog(path: string): Promise<Deno.FsFile> {
  const file = await ifThere(Deno.open(path, { read: true }));
  if (file === undefined) throw missing(path);
  return file;
}

async function identify(file: Deno.FsFile): Promise<string> {
  const { dev, ino } = await file.stat();
  return `${dev}:${ino}`;
}

function missing(path: string): AppError {
  return new AppError("not_found", `Cannot read audit log ${quoteText(path)}: no such file`);
}
