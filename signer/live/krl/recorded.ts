/**
 * Reads certificates from the audit log. If a signer is killed right after it releases a certificate, the
 * store does not contain the certificate, but a freeze must find it.
 */
import { readOldCommand } from "@gateway/shared/audit";
import { parseJson } from "@gateway/shared/json";
import { MAX_TTL_SECONDS } from "@gateway/shared/policy";
import * as z from "@zod/zod";
import { type CertificateHolder, type IssuedFacts, nameSerial, namesOfRequest } from "./certificates.ts";

export interface RecordedCertificate {
  readonly caller: string;
  readonly endUser: string;
  /** The address of the host, because a record does not contain its name. */
  readonly host: string;
  readonly role: string;
  readonly serial: bigint;
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

/** The credential that was issued for a request: a certificate or a token. */
export interface RecordedAnswer {
  readonly caller: string;
  readonly serial: bigint;
  readonly isToken: boolean;
  /** The answer was lost, or its caller reported the certificate to another instance. */
  readonly reason: "answer-lost" | "named-elsewhere";
}

/** IDs of requests in new and old records; a command or a message may contain the same text. */
const ANY_ID = /(?: rid=|"request_id":")([A-Za-z0-9._-]{1,64})(?![A-Za-z0-9._-])/g;
const ANY_SERIAL = /"serial":(\d{1,20})(?!\d)/g;
const COMMAND = /^role=(\S+) purpose=\S+(?: session_mode=\S+)?(?: user=(\S+))?(?: |$)/;
/** A fast filter: nearly every line without an issued credential lacks this text. */
const ISSUED = '"outcome":"issued"';
const TIME = /^\{"time":"([^"]{20,40})"/;

function readRecordTime(line: string): number | undefined {
  const ms = Date.parse(TIME.exec(line)?.[1] ?? "");
  return Number.isNaN(ms) ? undefined : ms;
}

function readIssued(line: string): z.infer<typeof issuedRecord> | undefined {
  try {
    return line.includes(ISSUED) ? issuedRecord.safeParse(parseJson(line)).data : undefined;
  } catch {
    return undefined;
  }
}

export function readIssuedRecord(line: string): RecordedCertificate | undefined {
  const recordedAt = readRecordTime(line);
  const data = readIssued(line);
  const [, role, endUser = ""] = COMMAND.exec(data?.command ?? "") ?? [];
  if (data === undefined || recordedAt === undefined || role === undefined) return undefined;
  const { caller, host, serial, target_type } = data;
  return target_type === "" && host !== "" ? { caller, endUser, host, role, serial, recordedAt } : undefined;
}

/**
 * Reads the issued certificates from the lines of a log, newest first, back to `since` (milliseconds since
 * the epoch).
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

/**
 * Certificates are stored in the order of their records. After this number of consecutive stored ones, all
 * earlier ones are stored too.
 */
const KNOWN_IN_TURN = 1000;

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
 * Finds the answers of requests in the lines of a log, newest first, back to `since`. `wanted` contains names
 * of the forms of `nameRequest()` and `nameSerial()`.
 */
export async function* findAnswers(
  lines: AsyncIterable<string>,
  wanted: ReadonlySet<string>,
  since: number,
): AsyncGenerator<RecordedAnswer> {
  const ids = new Set(wanted.values().map((name) => name.slice(0, name.indexOf(" "))));
  for await (const line of lines) {
    if ((readRecordTime(line) ?? since) < since) return;
    // Parse only matching lines, because a log has hundreds of thousands of records.
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

function mentions(line: string, ids: ReadonlySet<string>): boolean {
  return line.matchAll(ANY_ID).some(([, id = ""]) =>
    namesOfRequest("", id).some((name) => ids.has(name.slice(0, -1)))
  ) || line.matchAll(ANY_SERIAL).some(([, serial]) => ids.has(`serial=${serial}`));
}

/**
 * Converts a record. The record does not name the forwarder, so the certificate counts as requested through
 * every forwarder. It does not contain the validity, so the longest one is assumed.
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
