import type { LogHead, LogProblem, VerifyResult } from "@gateway/shared/audit";
import type { RememberedHead } from "./remembered_heads.ts";

export interface VerifiedLog {
  readonly name: string;
  readonly result: VerifyResult;
  /** The defects that are shown; `result` counts all. */
  readonly problems: readonly LogProblem[];
  /** What it was held against; absent at its first check, or when nothing is to be remembered. */
  readonly remembered?: RememberedHead | undefined;
}

export interface VerifyMethod {
  readonly withKey: boolean;
  /** Rotated files too, from the first record ever. */
  readonly all: boolean;
  readonly since: boolean;
}

/** Whether it is intact, and what was remembered of it is still in it. */
export function isIntact(log: VerifiedLog): boolean {
  return log.result.problems === 0 && !hasLostHead(log);
}

/** Whether the log does not contain what was seen of it. */
export function hasLostHead({ remembered, result }: VerifiedLog): boolean {
  return remembered !== undefined && result.entriesSince === undefined;
}

/** What is left open of an intact log, for people. */
export function findOpenQuestions(
  { result, remembered }: VerifiedLog,
  method: VerifyMethod,
): readonly string[] {
  return [
    ...(method.withKey ? [] : ["who wrote it: anybody can make a log whose hashes fit (pass --key)"]),
    ...(result.isFromBeginning ? [] : ["what was in the files before its first record (pass --all)"]),
    remembered !== undefined
      ? "that nothing was written after the remembered head and taken away again before now"
      : `that nothing was taken from its end: a log that was cut or emptied is as whole as a shorter one${
        method.since ? "; the next run will tell" : " (pass --since)"
      }`,
  ];
}

/** What the check came to, for people: what it proves, then what it does not. */
export function describeVerified(log: VerifiedLog, method: VerifyMethod): readonly string[] {
  const { name, result, problems, remembered } = log;
  if (isIntact(log)) {
    return [
      describeIntact(result.entries, method),
      `head: ${describeHead(result.head)}`,
      ...(remembered === undefined ? [] : [
        `since ${remembered.verified_at}: nothing of what was there then (${
          describeHead(remembered)
        }) was changed or ` +
        `taken away; ${result.entriesSince} entries came after it`,
      ]),
      ...findOpenQuestions(log, method).map((question) => `not proved: ${question}`),
    ];
  }
  const lost = hasLostHead(log) && remembered !== undefined
    ? [
      `ERROR: ${name} does not contain what was its end at ${remembered.verified_at} ` +
      `(${describeHead(remembered)}): it was cut, emptied, replaced or changed since`,
    ]
    : [];
  const isWrongKey = problems.length > 0 && result.problems === result.entries &&
    problems.every(({ kind }) => kind === "signature");
  return [
    ...(isWrongKey
      ? [
        `ERROR: every record of ${name} fails: probably the wrong key`,
        "fix: pass the key of the service that wrote the log (audit_key in its config)",
      ]
      : problems.map(({ file, line, message }) => `ERROR: ${file}:${line}: ${message}`)),
    ...(!isWrongKey && result.problems > problems.length
      ? [`… and ${result.problems - problems.length} more`]
      : []),
    ...lost,
    `FAIL: ${result.entries} entries checked, ${result.problems + lost.length} error(s) found`,
  ];
}

function describeIntact(entries: number, { all, withKey }: VerifyMethod): string {
  const scope = all ? " across all rotated segments" : "";
  const signatures = withKey ? ", all signatures valid" : "; signatures not checked (pass --key)";
  return `OK: ${entries} entries, chain intact${scope}${signatures}`;
}

function describeHead({ seq, hash }: LogHead): string {
  return hash === "" ? "an empty log" : `seq ${seq}, SHA-256 ${hash}`;
}
