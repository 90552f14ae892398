import { basename, resolve } from "node:path";
import type { AuditPublicKey } from "@gateway/shared/audit/chain";
import { type LogProblem, verifyAll, verifyFile, verifyKept } from "@gateway/shared/audit/verify";
import { systemClock } from "@gateway/shared/clock";
import { quoteText } from "@gateway/shared/quote";
import { once } from "../arguments.ts";
import { loadAuditKey } from "../audit/key.ts";
import { listLogSet } from "../audit/list_log_set.ts";
import { readHeads, type RememberedHead, writeHeads } from "../audit/remembered_heads.ts";
import {
  describeVerified,
  findOpenQuestions,
  hasLostHead,
  isIntact,
  type VerifiedLog,
  type VerifyMethod,
} from "../audit/verified_log.ts";
import type { AddCommand, CommandContext } from "../context.ts";
import type { CommandResult } from "../output.ts";

interface VerifyFlags {
  readonly log: string;
  readonly key?: string;
  readonly all?: boolean;
  readonly set?: boolean;
  readonly since?: string;
}

/** A log broken in every line must not fill the memory of who looks at it. */
const MAX_REPORTED = 1000;

const EXAMPLES = `
Examples:
  broker-ctl audit verify --log log/signer/audit.log --key pki/signer_audit.seed
  broker-ctl audit verify --log log/broker/audit.log --key pki/broker_audit.seed --all
  broker-ctl audit verify --log log/signer/audit.log --key pki/signer_audit.seed --since ~/heads/signer.json
  broker-ctl audit verify --log log/mcp/audit.log --key pki/mcp_audit.seed --set

Each record names the hash of the one before it and is signed. Without --key only the hashes are checked:
that finds a record changed or taken out, but not a log rewritten from end to end.
No log can show by itself that its end was cut off, or that it was emptied: for that somebody has to remember how
far it went. --since remembers: the first run makes the file, each later one refuses a log that does not contain
what the file remembers, and renews it only when all is well. It looks through rotated files too, of which the
oldest may be gone. Keep the file where the service's account can't write.
--set is for a broker over stdio, of which several processes may run: audit.log and, beside it, audit-2.log,
audit-3.log and so on, each a chain of its own.
`;

/** `audit verify`: what a log proves, and what it does not. */
export const addVerify: AddCommand = (audit, context) => {
  audit.command("verify")
    .description("Say what an audit log proves: that it is whole and unchanged. Exit code 1 when it is not.")
    .requiredOption("--log <file>", "the audit log", once)
    .option("--key <file>", "the seed file that the service signs with (its audit_key)", once)
    .option("--all", "the rotated files too, from the first record ever")
    .option("--set", "also the logs of further processes next to it")
    .option(
      "--since <file>",
      "compare it with the end that this file remembers, and remember the new one",
      once,
    )
    .addHelpText("after", EXAMPLES)
    .action((flags: VerifyFlags, command) => context.run(command, [], () => verify(flags, context)));
};

async function verify(flags: VerifyFlags, context: CommandContext): Promise<CommandResult> {
  const inFolder = (path: string) => resolve(context.workingFolder, path);
  const path = inFolder(flags.log);
  const publicKey = await loadAuditKey(flags.key, context.workingFolder);
  const headPath = flags.since === undefined ? undefined : inFolder(flags.since);
  const heads = headPath === undefined ? undefined : await readHeads(headPath);
  const method = { withKey: publicKey !== undefined, all: flags.all === true, since: headPath !== undefined };
  const logs: VerifiedLog[] = [];
  for (const log of flags.set === true ? await listLogSet(path) : [path]) {
    const remembered = heads?.find((head) => head.log === basename(log));
    logs.push(await verifyLog(log, method, { publicKey, remembered }));
  }
  const gone = (heads ?? []).filter((head) => logs.every(({ name }) => name !== head.log));
  const ok = gone.length === 0 && logs.every(isIntact);
  if (ok && headPath !== undefined) await writeHeads(headPath, logs.map(headOf));
  const shown = logs.map((log) => describeForPrograms(log, method));
  return {
    json: flags.set === true ? { ok, logs: shown, gone: gone.map(({ log }) => log) } : { ...shown[0], ok },
    lines: [
      ...logs.flatMap((log) => {
        const lines = describeVerified(log, method);
        return flags.set === true ? lines.map((line) => `${log.name}: ${line}`) : lines;
      }),
      ...gone.map(({ log }) =>
        `ERROR: ${log} is remembered and was not checked: ` +
        (flags.set === true ? "it is gone" : "it is another log than this one, or --set is missing")
      ),
      ...(headPath === undefined ? [] : [describeHeadFile(headPath, { ok, isNew: heads === undefined })]),
    ],
    failed: !ok,
  };
}

async function verifyLog(
  path: string,
  { all, since }: VerifyMethod,
  { publicKey, remembered }: {
    readonly publicKey: AuditPublicKey | undefined;
    readonly remembered: RememberedHead | undefined;
  },
): Promise<VerifiedLog> {
  const problems: LogProblem[] = [];
  const check = all ? verifyAll : since ? verifyKept : verifyFile;
  const result = await check({
    path,
    publicKey,
    since: remembered?.hash,
    onProblem(problem) {
      if (problems.length < MAX_REPORTED) problems.push(problem);
    },
  });
  return { name: basename(path), result, problems, remembered };
}

function headOf({ name, result: { head } }: VerifiedLog): RememberedHead {
  const verified_at = new Date(systemClock.now()).toISOString().replace(/\.\d+/, "");
  return { log: name, ...head, verified_at };
}

function describeForPrograms(log: VerifiedLog, method: VerifyMethod) {
  const { name, result, problems, remembered } = log;
  const ok = isIntact(log);
  return {
    log: name,
    ok,
    entries: result.entries,
    problem_count: result.problems,
    signatures: method.withKey,
    problems,
    head: result.head,
    since: remembered === undefined
      ? null
      : { ...remembered, contained: !hasLostHead(log), entries_since: result.entriesSince ?? null },
    not_proved: ok ? findOpenQuestions(log, method) : [],
  };
}

function describeHeadFile(
  path: string,
  { ok, isNew }: { readonly ok: boolean; readonly isNew: boolean },
): string {
  const file = quoteText(path);
  if (!ok) return isNew ? `${file} was not written` : `${file} was left as it is`;
  return isNew
    ? `${file} is new and remembers this end: from the next run on it shows when anything is taken away`
    : `${file} remembers this end now`;
}
