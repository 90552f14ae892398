import { resolve } from "node:path";
import { AppError } from "@gateway/shared/errors";
import { countOf, once, repeated } from "../kit/arguments.ts";
import { createFilter, type FilterFlags } from "./filter.ts";
import { readLogs } from "./read_logs.ts";
import type { LogRecord } from "./record.ts";
import { createRecordTable } from "./record_table.ts";
import type { AddCommand, CommandContext } from "../kit/context.ts";
import type { LineWriter } from "../kit/output.ts";
import { joinAudits } from "./join.ts";

interface ShowFlags extends FilterFlags {
  readonly log?: string;
  readonly all?: boolean;
  /** A folder: the logs of all instances. */
  readonly set?: boolean | string;
  readonly full?: boolean;
  readonly limit?: number;
  readonly join?: readonly string[];
  readonly checked?: readonly string[];
}

const MAX_LIMIT = 100_000;

const EXAMPLES = `
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

/** `audit show`: the records of a log, chosen by what is in them. */
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
    .option("--limit <count>", "how many of the newest (default: all)", countOf(1, MAX_LIMIT))
    .option("--full", "long commands and messages whole")
    .option("--join <file>", "a Kubernetes API server's audit log; repeat for more", repeated)
    .option(
      "--checked <id>",
      "with --join: the id of a token that cluster check has told; repeat for more",
      repeated,
    )
    .addHelpText("after", EXAMPLES)
    .action((flags: ShowFlags, command) => {
      const { join } = flags;
      if (join === undefined) return context.stream((writer) => show(flags, writer, context));
      return context.run(command, [], async () => {
        const matches = createFilter(flags);
        return await joinAudits({ ...flags, ...chooseLogs(flags), join, matches }, context);
      });
    });
};

/** Which logs are read: the path, and what is read beside it. */
function chooseLogs({ log, set }: ShowFlags): { readonly log: string; readonly set: boolean | "instances" } {
  if (typeof set === "string") {
    if (log === undefined) return { log: set, set: "instances" };
    throw new AppError("invalid_request", "--set <folder> is of all instances: --log does not go with it");
  }
  if (log === undefined) throw new AppError("invalid_request", "--log <file> or --set <folder> is needed");
  return { log, set: set === true };
}

async function show(flags: ShowFlags, writer: LineWriter, context: CommandContext): Promise<void> {
  const matches = createFilter(flags);
  const { log, set } = chooseLogs(flags);
  const instances = set === "instances";
  const { columns } = context.terminal;
  const table = createRecordTable({ columns, full: flags.full === true, instances });
  let [shown, malformed] = [0, 0];
  const write = ({ text, record, instance }: LogRecord) => {
    if (!writer.json && shown === 0) writer.line(table.heading);
    shown++;
    // The record stays as it was signed.
    const json = instances ? `{"instance":${JSON.stringify(instance)},"record":${text}}` : text;
    for (const line of writer.json ? [json] : table.format(record, instance)) writer.line(line);
  };
  // With a limit, a ring: the newest that matches takes the place of the oldest.
  const ring: LogRecord[] = [];
  let matched = 0;
  const { limit } = flags;
  for await (const record of readLogs(resolve(context.workingFolder, log), { ...flags, set })) {
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
