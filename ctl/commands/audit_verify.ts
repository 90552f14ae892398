import { resolve } from "node:path";
import { type LogProblem, verifyAll, verifyFile } from "@gateway/shared/audit/verify";
import { once } from "../arguments.ts";
import { loadAuditKey } from "../audit/key.ts";
import type { AddCommand, CommandContext } from "../context.ts";
import type { CommandResult } from "../output.ts";

interface VerifyFlags {
  readonly log: string;
  readonly key?: string;
  readonly all?: boolean;
}

/** A log broken in every line must not fill the memory of who looks at it. */
const MAX_REPORTED = 1000;

const EXAMPLES = `
Examples:
  broker-ctl audit verify --log log/signer/audit.log --key pki/signer_audit.seed
  broker-ctl audit verify --log log/broker/audit.log --key pki/broker_audit.seed --all

Each record names the hash of the one before it and is signed. Without --key only the hashes are checked:
that finds a record changed or taken out, but not a log rewritten from end to end.
`;

/** `audit verify`: whether a log is complete and unchanged. */
export const addVerify: AddCommand = (audit, context) => {
  audit.command("verify")
    .description("Prove that an audit log is complete and unchanged. Exit code 1 when it is not.")
    .requiredOption("--log <file>", "the audit log", once)
    .option("--key <file>", "the seed file that the service signs with (its audit_key)", once)
    .option("--all", "the rotated files too, from the first record ever")
    .addHelpText("after", EXAMPLES)
    .action((flags: VerifyFlags, command) => context.run(command, [], () => verify(flags, context)));
};

async function verify(flags: VerifyFlags, context: CommandContext): Promise<CommandResult> {
  const path = resolve(context.workingFolder, flags.log);
  const publicKey = await loadAuditKey(flags.key, context.workingFolder);
  const problems: LogProblem[] = [];
  const onProblem = (problem: LogProblem) => {
    if (problems.length < MAX_REPORTED) problems.push(problem);
  };
  const result = await (flags.all ? verifyAll : verifyFile)({ path, publicKey, onProblem });
  const ok = result.problems === 0;
  return {
    json: {
      ok,
      entries: result.entries,
      problem_count: result.problems,
      signatures: publicKey !== undefined,
      problems,
    },
    lines: ok ? [describeIntact(result.entries, flags)] : [
      ...problems.map(describeProblem),
      ...(result.problems > problems.length ? [`… and ${result.problems - problems.length} more`] : []),
      `FAIL: ${result.entries} entries checked, ${result.problems} error(s) found`,
    ],
    failed: !ok,
  };
}

function describeIntact(entries: number, flags: VerifyFlags): string {
  const scope = flags.all ? " across all rotated segments" : "";
  const signatures = flags.key === undefined
    ? "; signatures not checked (pass --key)"
    : ", all signatures valid";
  return `OK: ${entries} entries, chain intact${scope}${signatures}`;
}

function describeProblem(problem: LogProblem): string {
  return `ERROR: ${problem.file}:${problem.line}: ${problem.message}`;
}
