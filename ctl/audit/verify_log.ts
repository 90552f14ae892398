import { basename } from "node:path";
import {
  type AuditPublicKey,
  type LogProblem,
  verifyAll,
  verifyFile,
  verifyKept,
} from "@gateway/shared/audit";
import { systemClock } from "@gateway/shared/clock";
import type { RememberedHead } from "./remembered_heads.ts";
import {
  findOpenQuestions,
  hasLostHead,
  isIntact,
  type VerifiedLog,
  type VerifyMethod,
} from "./verified_log.ts";

/** A log broken in every line must not fill the memory of who looks at it. */
export const MAX_REPORTED = 1000;

/** What a log is checked by. */
interface LogCheck {
  readonly publicKey: AuditPublicKey | undefined;
  readonly remembered: RememberedHead | undefined;
  /** What it is called; absent: its file's name. */
  readonly name?: string;
  readonly onLine?: (line: Uint8Array) => void;
}

export async function verifyLog(
  path: string,
  { all, since }: VerifyMethod,
  { publicKey, remembered, name = basename(path), onLine }: LogCheck,
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
    onLine,
  });
  return { name, result, problems, remembered };
}

/** The end of a log, to be remembered. */
export function headOf({ name, result: { head } }: VerifiedLog): RememberedHead {
  const verified_at = new Date(systemClock.now()).toISOString().replace(/\.\d+/, "");
  return { log: name, ...head, verified_at };
}

/** What a check found, for programs. */
export function describeForPrograms(log: VerifiedLog, method: VerifyMethod) {
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
