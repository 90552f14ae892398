import { basename } from "node:path";
import * as z from "@zod/zod";
import {
  type AuditPublicKey,
  type LogHead,
  type LogProblem,
  verifyAll,
  verifyFile,
  verifyKept,
} from "@gateway/shared/audit";
import { systemClock } from "@gateway/shared/clock";
import { errorText } from "@gateway/shared/errors";
import { ifThere, readRegularText, writeFileAtomic } from "@gateway/shared/files";
import { stringifyJson } from "@gateway/shared/json";
import { quoteText } from "@gateway/shared/text";
import { badConfig } from "../kit/output.ts";
import { readJson } from "../kit/values.ts";

/** The limit of reported problems, because every line of a log can be broken. */
export const MAX_REPORTED = 1000;

const headFile = z.strictObject({
  heads: z.array(z.strictObject({
    // The name without its directory, because logs are also verified where they were copied to.
    log: z.string().min(1),
    seq: z.union([z.int(), z.bigint()]).transform(BigInt),
    hash: z.string().regex(/^(?:[0-9a-f]{64})?$/),
    verified_at: z.string().regex(/^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z$/),
  })).min(1),
});

/** The end of a log when it was last verified. */
type RememberedHead = z.infer<typeof headFile>["heads"][number];

export type VerifiedLog = Awaited<ReturnType<typeof verifyLog>>;

type VerifyMethod = Readonly<Record<"withKey" | "all" | "since", boolean>>;

/** The file of `--since`, which remembers the ends of logs; without a path, nothing is remembered. */
export async function openHeads(path: string | undefined) {
  const heads = path === undefined ? undefined : await readHeads(path);
  return {
    find: (log: string) => heads?.find((head) => head.log === log),
    /** The remembered logs that were not verified. */
    listGone: (logs: readonly VerifiedLog[]) =>
      (heads ?? []).map(({ log }) => log).filter((log) => logs.every(({ name }) => name !== log)),
    /** Remembers the new ends if all logs are in order. @returns lines for the operator */
    async close(logs: readonly VerifiedLog[], ok: boolean): Promise<readonly string[]> {
      if (path === undefined) return [];
      const file = quoteText(path);
      if (!ok) return [heads === undefined ? `${file} was not written` : `${file} was not changed`];
      const verified_at = new Date(systemClock.now()).toISOString().replace(/\.\d+/, "");
      const fresh = logs.map(({ name, result: { head } }) => ({ log: name, ...head, verified_at }));
      const bytes = new TextEncoder().encode(`${stringifyJson({ heads: fresh })}\n`);
      await writeFileAtomic(path, bytes).catch((cause) => {
        throw badConfig(`Cannot write remembered heads ${file}: ${errorText(cause)}`, cause);
      });
      return [
        heads === undefined
          ? `${file} created; the next run with it detects removed records`
          : `${file} updated`,
      ];
    },
  };
}

async function readHeads(path: string) {
  const text = await ifThere(readRegularText(path));
  if (text === undefined) return undefined;
  const heads = readJson(headFile, text)?.heads;
  if (heads !== undefined) return heads;
  throw badConfig(`Cannot read remembered heads ${quoteText(path)}: expected a file of audit verify --since`);
}

export async function verifyLog(
  path: string,
  { all, since }: VerifyMethod,
  { publicKey, heads, name = basename(path), onLine }: {
    readonly publicKey: AuditPublicKey | undefined;
    readonly heads: { readonly find: (log: string) => RememberedHead | undefined };
    readonly name?: string;
    readonly onLine?: (line: Uint8Array) => void;
  },
) {
  const remembered = heads.find(name);
  const problems: LogProblem[] = [];
  const result = await (all ? verifyAll : since ? verifyKept : verifyFile)({
    path,
    publicKey,
    since: remembered?.hash,
    onProblem(problem) {
      if (problems.length < MAX_REPORTED) problems.push(problem);
    },
    onLine,
  });
  const lost = result.entriesSince === undefined ? remembered : undefined;
  return {
    name,
    result,
    problems,
    remembered,
    /** The remembered end, if the log does not contain it. */
    lost,
    isIntact: result.problems === 0 && lost === undefined,
  };
}

export function describeForPrograms(log: VerifiedLog, method: VerifyMethod) {
  const { name, result, problems, remembered, lost, isIntact: ok } = log;
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
      : { ...remembered, contained: lost === undefined, entries_since: result.entriesSince ?? null },
    not_proved: ok ? findOpenQuestions(log, method) : [],
  };
}

/** The properties that the check of an intact log does not prove. */
function findOpenQuestions({ result, remembered }: VerifiedLog, method: VerifyMethod): readonly string[] {
  return [
    ...(method.withKey ? [] : ["the author: anyone can create a log with valid hashes (pass --key)"]),
    ...(result.isFromBeginning ? [] : ["earlier records in rotated files (pass --all)"]),
    remembered !== undefined
      ? "records that were added after the remembered head and removed before this run"
      : `truncation: removed records at the end (${
        method.since ? "the next run detects it" : "pass --since"
      })`,
  ];
}

/** The result of a check as text: first what the check proves, then what it does not prove. */
export function describeVerified(log: VerifiedLog, method: VerifyMethod): readonly string[] {
  const { name, problems, remembered, lost, isIntact } = log;
  const { entries, problems: count, head, entriesSince } = log.result;
  if (isIntact) {
    const scope = method.all ? " across all rotated segments" : "";
    const signatures = method.withKey ? ", all signatures valid" : "; signatures not checked (pass --key)";
    return [
      `OK: ${entries} entries, chain intact${scope}${signatures}`,
      `head: ${describeHead(head)}`,
      ...(remembered === undefined ? [] : [
        `since ${remembered.verified_at}: no earlier record was changed or removed ` +
        `(head ${describeHead(remembered)}); ${entriesSince} new entries`,
      ]),
      ...findOpenQuestions(log, method).map((question) => `not proved: ${question}`),
    ];
  }
  const isWrongKey = problems.length > 0 && count === entries &&
    problems.every(({ kind }) => kind === "signature");
  return [
    ...(isWrongKey
      ? [
        `ERROR: every record of ${name} fails: probably the wrong key`,
        "fix: pass the key of the service that wrote the log (audit_key in its config)",
      ]
      : [
        ...problems.map(({ file, line, message }) => `ERROR: ${file}:${line}: ${message}`),
        ...(count > problems.length ? [`… and ${count - problems.length} more`] : []),
      ]),
    ...(lost === undefined ? [] : [
      `ERROR: ${name} no longer contains its head of ${lost.verified_at} (${describeHead(lost)}): ` +
      "it was truncated, replaced or changed",
    ]),
    `FAIL: ${entries} entries checked, ${count + (lost === undefined ? 0 : 1)} error(s) found`,
  ];
}

function describeHead({ seq, hash }: LogHead): string {
  return hash === "" ? "empty log" : `seq ${seq}, SHA-256 ${hash}`;
}
