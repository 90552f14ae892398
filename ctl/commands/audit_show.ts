import { resolve } from "node:path";
import { MAX_LINE_BYTES } from "@gateway/shared/audit/record";
import { AppError } from "@gateway/shared/errors";
import { quoteText } from "@gateway/shared/quote";
import { splitLines } from "@gateway/shared/audit/lines";
import { countOf, once } from "../arguments.ts";
import { createFilter, type FilterFlags } from "../audit/filter.ts";
import { formatRecord, HEADING, type LogRecord, readRecord } from "../audit/record.ts";
import type { AddCommand, CommandContext } from "../context.ts";
import type { LineWriter } from "../output.ts";

interface ShowFlags extends FilterFlags {
  readonly log: string;
  readonly limit?: number;
}

const MAX_LIMIT = 100_000;

const EXAMPLES = `
Examples:
  broker-ctl audit show --log log/signer/audit.log --host 10.0.0.5 --since 2026-01-31
  broker-ctl audit show --log log/signer/audit.log --outcome denied --limit 20
  broker-ctl audit show --log log/broker/audit.log --serial 9223372036854775808 --json

One file; name a rotated one with --log to read that. Nothing is verified: that is broker-ctl audit verify.
Control characters are shown as text; --json gives the records one a line.
`;

/** `audit show`: the records of a log, chosen by what is in them. */
export const addShow: AddCommand = (audit, context) => {
  audit.command("show")
    .description("Show the records of an audit log.")
    .requiredOption("--log <file>", "the audit log", once)
    .option("--host <text>", "records whose host contains this", once)
    .option("--caller <text>", "records whose caller contains this", once)
    .option("--outcome <outcome>", "records of this outcome", once)
    .option("--serial <number>", "records of this certificate", once)
    .option("--since <time>", "records from this time on, RFC 3339 or a day (UTC)", once)
    .option("--limit <count>", "the newest of them, so many (default: all)", countOf(1, MAX_LIMIT))
    .addHelpText("after", EXAMPLES)
    .action((flags: ShowFlags, command) =>
      context.stream(command, [], (writer) => show(flags, writer, context))
    );
};

async function show(flags: ShowFlags, writer: LineWriter, context: CommandContext): Promise<void> {
  const matches = createFilter(flags);
  let [shown, malformed] = [0, 0];
  const write = ({ text, record }: LogRecord) => {
    if (!writer.json && shown === 0) writer.line(HEADING);
    shown++;
    writer.line(writer.json ? text : formatRecord(record));
  };
  // With a limit, a ring: the newest that matches takes the place of the oldest.
  const ring: LogRecord[] = [];
  let matched = 0;
  const { limit } = flags;
  for await (const record of readLog(resolve(context.workingFolder, flags.log))) {
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

/** Each line as a record, or undefined when it is none. */
async function* readLog(path: string): AsyncGenerator<LogRecord | undefined> {
  const file = await openLog(path);
  for await (const { bytes, tooLong } of splitLines(file.readable, MAX_LINE_BYTES)) {
    if (bytes.length > 0) yield tooLong ? undefined : readRecord(bytes);
  }
}

async function openLog(path: string): Promise<Deno.FsFile> {
  try {
    return await Deno.open(path, { read: true });
  } catch (cause) {
    if (!(cause instanceof Deno.errors.NotFound)) throw cause;
    throw new AppError("not_found", `Cannot read audit log ${quoteText(path)}: no such file`, { cause });
  }
}
