import { resolve } from "node:path";
import { systemClock } from "@gateway/shared/clock";
import { AppError } from "@gateway/shared/errors";
import { countOf, once, repeated } from "../kit/arguments.ts";
import type { AddCommand, CommandContext } from "../kit/context.ts";
import type { LineWriter } from "../kit/output.ts";
import { joinAudits } from "./join.ts";
import { followLog, followSet, type LogChoice, readLogs } from "./logs.ts";
import { createFilter, createRecordTable, type FilterFlags, type LogRecord, readRecord } from "./record.ts";

interface ShowFlags extends FilterFlags {
  readonly log?: string;
  readonly all?: boolean;
  /** A text is the directory with the logs of all instances. */
  readonly set?: boolean | string;
  readonly full?: boolean;
  readonly limit?: number;
  readonly checked?: readonly string[];
}

const MAX_LINES = 100_000;
const DEFAULT_LINES = 20;

const SHOW_EXAMPLES = `
Examples:
  broker-ctl audit show --log log/signer/audit.log --host 10.0.0.5 --since 2026-01-31
  broker-ctl audit show --log log/signer/audit.log --outcome denied --limit 20
  broker-ctl audit show --log log/control-plane/audit.log --all --outcome approval-granted
  broker-ctl audit show --log log/broker/audit.log --serial 9223372036854775808 --json
  broker-ctl audit show --set logs --serial 9223372036854775808
  broker-ctl audit show --log log/signer/audit.log --request 0b9b35a2-3cd5-4b7e-9a2f-6f0a3c1d2e4f
  broker-ctl audit show --log log/signer/audit.log --all --join /var/log/kubernetes/audit.log

One file, or with --all the rotated ones before it, oldest first. --set is for a broker over stdio, of which several
processes may run, each with a log of its own (audit-2.log, audit-3.log …). --set <folder> is for a deployment of
several instances, with <folder>/<instance>/audit.log of each: by time, as far as their clocks agree, and the records of
each in its own order. Nothing is verified: that is broker-ctl audit verify.
Control characters are shown as text, and commands of more than 400 characters are cut, which their end says;
--full shows all of them, --json gives the records one a line; of several instances {"instance":…,"record":…}.

--join reads the audit log of a cluster's API server beside the signer's: of each record of a token it shows what the
cluster did with that token, told by its id, and then what was done as the same ServiceAccounts, or issued for them,
without any record of ours. All of the log's records explain, not only those that are shown: give --all. Exit code 1
where a token was used for something else than it was issued for, or something is unexplained. --json is one object.
The tokens of broker-ctl cluster check have no record: --checked takes the ids that it told, and then the questions
that such a token asked about its own rights, and nothing else that it did, are explained.
A file whose name ends with .gz is read as such.
`;

export const addShow: AddCommand = (audit, context) => {
  audit.command("show")
    .description("Show the records of an audit log.")
    .option("--log <file>", "the audit log", once)
    .option("--all", "the rotated files too")
    .option(
      "--set [folder]",
      "the logs of further processes beside it too, by time; or those of all instances",
      once,
    )
    .option("--host <text>", "records whose host contains this", once)
    .option("--caller <text>", "records whose caller contains this", once)
    .option("--outcome <outcome>", "records of this outcome", once)
    .option("--serial <number>", "records of this certificate", once)
    .option("--request <id>", "records of this request (request_id of an answer or a log line)", once)
    .option("--since <time>", "records from this time on, RFC 3339 or a day (UTC)", once)
    .option("--limit <count>", "how many of the newest (default: all)", countOf(1, MAX_LINES))
    .option("--full", "long commands and messages whole")
    .option("--join <file>", "a Kubernetes API server's audit log; repeat for more", repeated)
    .option(
      "--checked <id>",
      "with --join: the id of a token that cluster check has told; repeat for more",
      repeated,
    )
    .addHelpText("after", SHOW_EXAMPLES)
    .action(({ join, ...flags }: ShowFlags & { readonly join?: readonly string[] }, command) => {
      if (join === undefined) return context.stream((writer) => show(flags, writer, context));
      return context.run(command, [], async () => {
        const matches = createFilter(flags);
        return await joinAudits({ ...flags, ...chooseLogs(flags), join, matches }, context);
      });
    });
};

function chooseLogs({ log, set }: ShowFlags): { readonly log: string } & Required<Pick<LogChoice, "set">> {
  if (typeof set === "string") {
    if (log === undefined) return { log: set, set: "instances" };
    throw new AppError("invalid_request", "--set <folder> is of all instances: --log does not go with it");
  }
  if (log === undefined) throw new AppError("invalid_request", "--log <file> or --set <folder> is needed");
  return { log, set: set === true };
}

async function show(
  flags: ShowFlags,
  writer: LineWriter,
  { workingFolder, terminal: { columns } }: CommandContext,
): Promise<void> {
  const matches = createFilter(flags);
  const { all = false, full = false, limit } = flags;
  const { log, set } = chooseLogs(flags);
  const instances = set === "instances";
  const table = createRecordTable({ columns, full, instances });
  let [shown, malformed, matched] = [0, 0, 0];
  const write = ({ text, record, instance }: LogRecord) => {
    if (!writer.json && shown === 0) writer.line(table.heading);
    shown++;
    // The record stays as it was signed.
    const json = instances ? `{"instance":${JSON.stringify(instance)},"record":${text}}` : text;
    for (const line of writer.json ? [json] : table.format(record, instance)) writer.line(line);
  };
  // With a limit, the newest match replaces the oldest one in a ring.
  const ring: LogRecord[] = [];
  for await (const record of readLogs(resolve(workingFolder, log), { all, set })) {
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

const TAIL_EXAMPLES = `
Examples:
  broker-ctl audit tail --log log/signer/audit.log
  broker-ctl audit tail --log log/signer/audit.log -n 100 --json
  broker-ctl audit tail --log log/mcp/audit.log --set

It runs until it is interrupted, also when the log is rotated. For the last records alone there is
broker-ctl audit show --limit.
Control characters are shown as text, and commands of more than 400 characters are cut, which their end says;
--full shows all of them, --json gives the records one a line.
`;

export const addTail: AddCommand = (audit, context) => {
  audit.command("tail")
    .description("Show the last records of an audit log, and each new one.")
    .requiredOption("--log <file>", "the audit log", once)
    .option("-n, --lines <count>", "how many to begin with", countOf(0, MAX_LINES), DEFAULT_LINES)
    .option("--set", "also the logs of further processes next to it, and those that begin later")
    .option("--full", "long commands and messages whole")
    .addHelpText("after", TAIL_EXAMPLES)
    .action((flags) => context.stream((writer) => tail(flags, writer, context)));
};

async function tail(
  { log, lines, full = false, set = false }: {
    readonly log: string;
    readonly lines: number;
    readonly full?: boolean;
    readonly set?: boolean;
  },
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
