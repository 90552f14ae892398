/**
 * Certificates as the audit log tells of them: those that were released in the moment before a signer was killed are
 * in no store, and yet a freeze has to find them.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { readIssuedRecord } from "./recorded.ts";
 *
 * const line = '{"time":"2026-01-01T00:00:00Z","caller":"broker-1","host":"10.0.0.1:22",' +
 *   '"command":"role=target purpose=session user=alice","serial":7,"outcome":"issued"}';
 * assert.equal(readIssuedRecord(line)?.endUser, "alice");
 * ```
 *
 * @module
 */
import { readOldCommand } from "@gateway/shared/audit";
import { parseJson } from "@gateway/shared/json";
import { MAX_TTL_SECONDS } from "@gateway/shared/policy";
import * as z from "@zod/zod";
import type { CertificateHolder, IssuedFacts } from "./certificates.ts";
import { nameSerial, namesOfRequest } from "./certificates.ts";

/** What a record of a certificate says of it, as far as a revocation asks. */
export interface RecordedCertificate {
  readonly caller: string;
  readonly endUser: string;
  /** The address: the record has no name. */
  readonly host: string;
  readonly role: string;
  readonly serial: bigint;
  /** Milliseconds since the epoch. */
  readonly recordedAt: number;
}

const issuedRecord = z.object({
  caller: z.string().min(1),
  host: z.string().default(""),
  command: z.string(),
  outcome: z.literal("issued"),
  serial: z.union([z.int().positive(), z.bigint().positive()]).transform(BigInt),
  target_type: z.string().default(""),
  ext: z.object({ request_id: z.string().default("") }).optional(),
});

/** What came of a request: a certificate or a token. */
export interface RecordedAnswer {
  readonly caller: string;
  readonly serial: bigint;
  readonly isToken: boolean;
  /** Why it is wanted: nobody has the answer, or its caller named the certificate to another instance. */
  readonly reason: "answer-lost" | "named-elsewhere";
}

/** The ID of the request, where new and old records have it; a command or a message may hold the same text. */
const ANY_ID = /(?: rid=|"request_id":")([A-Za-z0-9._-]{1,64})(?![A-Za-z0-9._-])/g;
/** Serials; a command or a message may hold the same text. */
const ANY_SERIAL = /"serial":(\d{1,20})(?!\d)/g;
const COMMAND = /^role=(\S+) purpose=\S+(?: session_mode=\S+)?(?: user=(\S+))?(?: |$)/;
/** Nearly every line that is not of a certificate is known by this. */
const ISSUED = '"outcome":"issued"';
const TIME = /^\{"time":"([^"]{20,40})"/;

/** When a line of the audit log was written, in milliseconds since the epoch; `undefined` when it does not say. */
function readRecordTime(line: string): number | undefined {
  const ms = Date.parse(TIME.exec(line)?.[1] ?? "");
  return Number.isNaN(ms) ? undefined : ms;
}

/** What a line of the audit log has of a certificate or token; `undefined` if it is of something else. */
function readIssued(line: string): z.infer<typeof issuedRecord> | undefined {
  try {
    return line.includes(ISSUED) ? issuedRecord.safeParse(parseJson(line)).data : undefined;
  } catch {
    return undefined;
  }
}

/** The certificate that a line of the audit log is of; `undefined` if it is of something else. */
export function readIssuedRecord(line: string): RecordedCertificate | undefined {
  const recordedAt = readRecordTime(line);
  const data = readIssued(line);
  const [, role, endUser = ""] = COMMAND.exec(data?.command ?? "") ?? [];
  if (data === undefined || recordedAt === undefined || role === undefined) return undefined;
  const { caller, host, serial, target_type } = data;
  return target_type === "" && host !== "" ? { caller, endUser, host, role, serial, recordedAt } : undefined;
}

/**
 * The certificates of a log's lines, the last line first, as far back as lines are as old as `since`.
 *
 * @param since milliseconds since the epoch
 */
export async function* readIssuedRecords(
  lines: AsyncIterable<string>,
  since: number,
): AsyncGenerator<RecordedCertificate> {
  for await (const line of lines) {
    if ((readRecordTime(line) ?? since) < since) return;
    const certificate = readIssuedRecord(line);
    if (certificate !== undefined) yield certificate;
  }
}

/** Certificates are stored in the order of their records: behind so many that are stored, all others are. */
const KNOWN_IN_TURN = 1000;

/** Those of a log that are not stored, the last first. */
export async function* withoutKnown(
  records: AsyncIterable<RecordedCertificate>,
  known: ReadonlySet<bigint>,
): AsyncGenerator<RecordedCertificate> {
  let knownInTurn = 0;
  for await (const certificate of records) {
    if (known.has(certificate.serial)) {
      if (++knownInTurn === KNOWN_IN_TURN) return;
      continue;
    }
    knownInTurn = 0;
    yield certificate;
  }
}

/**
 * What came of requests, as a log's lines tell, the last line first.
 *
 * @param wanted as `nameRequest()` and `nameSerial()` name them
 * @param since milliseconds since the epoch
 */
export async function* findAnswers(
  lines: AsyncIterable<string>,
  wanted: ReadonlySet<string>,
  since: number,
): AsyncGenerator<RecordedAnswer> {
  const ids = new Set(wanted.values().map((name) => name.slice(0, name.indexOf(" "))));
  for await (const line of lines) {
    if ((readRecordTime(line) ?? since) < since) return;
    // A log has hundreds of thousands of records: others are not taken apart.
    const data = mentions(line, ids) ? readIssued(line) : undefined;
    if (data === undefined) continue;
    const { caller, serial, target_type, command, ext = readOldCommand(command) } = data;
    const answer = { caller, serial, isToken: target_type === "k8s" };
    if (ext.request_id !== "" && namesOfRequest(caller, ext.request_id).some((name) => wanted.has(name))) {
      yield { ...answer, reason: "answer-lost" };
    } else if (wanted.has(nameSerial(caller, answer.serial))) {
      yield { ...answer, reason: "named-elsewhere" };
    }
  }
}

/** Whether one of these ids may be a record's. */
function mentions(line: string, ids: ReadonlySet<string>): boolean {
  return line.matchAll(ANY_ID).some(([, id = ""]) =>
    namesOfRequest("", id).some((name) => ids.has(name.slice(0, -1)))
  ) || line.matchAll(ANY_SERIAL).some(([, serial]) => ids.has(`serial=${serial}`));
}

/**
 * The same as an issued certificate. The record says neither through which forwarder it was asked for, so that it
 * counts as asked for through each, nor how long it is good for: the longest that any may be.
 */
export function toIssued(
  { caller, endUser, host, role, serial, recordedAt }: RecordedCertificate,
  forwarders: Iterable<string>,
): { readonly holders: readonly CertificateHolder[]; readonly facts: IssuedFacts } {
  const issuedAt = Math.floor(recordedAt / 1000);
  const holder = { caller, endUser, host, role, elevationPrefix: "", pty: false };
  return {
    holders: [...new Set([caller, ...forwarders])].map((peer) => ({ ...holder, peer })),
    facts: { serial, issuedAt, validBefore: issuedAt + MAX_TTL_SECONDS },
  };
}
