import { resolve } from "node:path";
import { systemClock } from "@gateway/shared/clock";
import { countOf, once } from "../kit/arguments.ts";
import { followLog, followSet } from "./follow.ts";
import { readRecord } from "./record.ts";
import { createRecordTable } from "./record_table.ts";
import type { AddCommand, CommandContext } from "../kit/context.ts";
import type { LineWriter } from "../kit/output.ts";

interface TailFlags {
  readonly log: string;
  readonly lines: number;
  readonly full?: boolean;
  readonly set?: boolean;
}

const DEFAULT_LINES = 20;
const MAX_LINES = 100_000;

const EXAMPLES = `
Examples:
  broker-ctl audit tail --log log/signer/audit.log
  broker-ctl audit tail --log log/signer/audit.log -n 100 --json
  broker-ctl audit tail --log log/mcp/audit.log --set

It runs until it is interrupted, also when the log is rotated. For the last records alone there is
broker-ctl audit show --limit.
Control characters are shown as text, and commands of more than 400 characters are cut, which their end says;
--full shows all of them, --json gives the records one a line.
`;

/** `audit tail`: the last records of a log, and each new one. */
export const addTail: AddCommand = (audit, context) => {
  audit.command("tail")
    .description("Show the last records of an audit log, and each new one.")
    .requiredOption("--log <file>", "the audit log", once)
    .option("-n, --lines <count>", "how many to begin with", countOf(0, MAX_LINES), DEFAULT_LINES)
    .option("--set", "also the logs of further processes next to it, and those that begin later")
    .option("--full", "long commands and messages whole")
    .addHelpText("after", EXAMPLES)
    .action((flags: TailFlags) => context.stream((writer) => tail(flags, writer, context)));
};

async function tail(
  { log, lines, full = false, set = false }: TailFlags,
  writer: LineWriter,
  { workingFolder, signal, terminal }: CommandContext,
): Promise<void> {
  const table = createRecordTable({ columns: terminal.columns, full });
  if (!writer.json) writer.line(table.heading);
  await (set ? followSet : followLog)({
    path: resolve(workingFolder, log),
    lines,
    clock: systemClock,
    signal,
    onMissing: () => writer.note(`waiting for ${log}`),
    onLine: (line) => {
      if (line.length === 0) return;
      const record = readRecord(line);
      if (record === undefined) writer.note("malformed line skipped; see broker-ctl audit verify");
      else for (const line of writer.json ? [record.text] : table.format(record.record)) writer.line(line);
    },
  });
}
