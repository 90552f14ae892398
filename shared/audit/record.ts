/**
 * An audit record as text: which members in which order, how strings are escaped, and how an over-long
 * record is cut so that every reader's line limit holds.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { encodeRecord, formatTime } from "@gateway/shared/audit";
 *
 * const { body, ext } = encodeRecord(
 *   { caller: "admin", outcome: "issued", err: "a<b", request_id: "r-1" },
 *   { time: formatTime(0) },
 * );
 * assert.equal(
 *   body,
 *   '{"time":"1970-01-01T00:00:00Z","caller":"admin","host":"","user":"","principal":"","command":"",' +
 *     String.raw`"ttl":"","serial":0,"outcome":"issued","exit_code":0,"err":"a\u003cb"`,
 * );
 * assert.equal(ext, '{"request_id":"r-1"}');
 * ```
 *
 * @module
 */
import { Buffer } from "node:buffer";
import { createHash } from "node:crypto";

/** No line of a log is longer than this, in bytes without its newline; readers refuse longer ones. */
export const MAX_LINE_BYTES = 262_144;

/** Ends a text that was cut. */
export const TRUNCATED = "...[TRUNCATED]";

// What seq, prev_hash and sig add to a body stays well under this.
const RESERVED_BYTES = 1024;

type TextField = { [K in keyof AuditEntry]-?: Required<AuditEntry>[K] extends string ? K : never }[
  keyof AuditEntry
];

const FREE_TEXT = [
  "command",
  "command_line",
  "reason",
  "err",
  "warning",
  "anomaly",
] as const satisfies readonly TextField[];

const OTHER_TEXT = [
  "caller",
  "host",
  "user",
  "principal",
  "ttl",
  "session_id",
  "target_type",
  "body_sha256",
  "outcome",
  "elevation",
  "policy_rule",
  "approval_id",
  "approved_by",
  "approved_via",
  "request_id",
  "host_name",
  "addr",
  "content_sha256",
  "jti",
] as const satisfies readonly TextField[];

/** A record without its chain. */
export interface RecordText {
  /** The members before `seq`: a JSON object that is not closed yet. */
  readonly body: string;
  /** The JSON object `ext`; `""` if the record has none. */
  readonly ext: string;
}

/** How {@linkcode encodeRecord} writes an entry. */
interface EncodeOptions {
  /** RFC 3339, UTC; see {@linkcode formatTime}. */
  readonly time: string;
  /** Applied to free text (`command`, `command_line`, `reason`, `err`, `warning`, `anomaly`) before it is truncated. */
  readonly redact?: (text: string) => string;
}

/**
 * The record without `seq`, `prev_hash` and `sig`, which the chain adds. If the line would be longer than
 * {@linkcode MAX_LINE_BYTES}, the longest free text is truncated first, then the longest other text.
 *
 * @throws {RangeError} for an exit code that is not a safe integer or a serial outside of 64 bits, unsigned
 */
export function encodeRecord(entry: AuditEntry, options: EncodeOptions): RecordText {
  checkNumbers(entry);
  // Of the command as it was requested: before a secret in it is masked and before it is truncated.
  const sha256 = entry.command_line ? createHash("sha256").update(entry.command_line).digest("hex") : "";
  const write = (fields: AuditEntry) => ({
    body: writeBody(fields, options.time),
    ext: writeExt(fields, sha256),
  });
  let fields = redactFields(entry, options.redact);
  let text = write(fields);
  const budget = MAX_LINE_BYTES - RESERVED_BYTES;
  for (const candidates of [FREE_TEXT, OTHER_TEXT]) {
    for (let round = 0; round < candidates.length; round++) {
      const excess = excessBytes(text.body + text.ext, budget);
      if (excess <= 0) return text;
      fields = cutLongest(fields, candidates, excess);
      text = write(fields);
    }
  }
  return text;
}

/**
 * A point in time as records carry it: RFC 3339 in UTC, the fraction of the second without trailing zeros
 * and absent when it is zero.
 *
 * @param ms milliseconds since the Unix epoch
 */
export function formatTime(ms: number): string {
  const text = new Date(ms).toISOString();
  return text.endsWith("0Z") ? text.replace(/(?:\.000|0{1,2})Z$/, "Z") : text;
}

/** A JSON string, quotes included, escaped the way the record's format fixes it; lone surrogates become U+FFFD. */
export function encodeText(text: string): string {
  if (PLAIN.test(text)) return `"${text}"`;
  return JSON.stringify(text.toWellFormed()).replace(/[<>&\u2028\u2029]/g, escapeUnit);
}

/** Printable ASCII but for what is escaped; nearly every text is. */
const PLAIN = /^[ !#-%'-;=?-[\]-~]*$/;

function escapeUnit(unit: string): string {
  return `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
}

function checkNumbers(entry: AuditEntry): void {
  const { exit_code = 0, serial = 0n } = entry;
  if (!Number.isSafeInteger(exit_code)) throw new RangeError(`Exit code "${exit_code}" is not an integer`);
  if (serial < 0n || serial > 0xffff_ffff_ffff_ffffn) {
    throw new RangeError(`Serial "${serial}" is not an unsigned 64-bit number`);
  }
}

function redactFields(entry: AuditEntry, redact: ((text: string) => string) | undefined): AuditEntry {
  if (redact === undefined) return entry;
  const changed: Partial<Record<TextField, string>> = {};
  for (const field of FREE_TEXT) {
    const text = entry[field];
    if (text) changed[field] = redact(text);
  }
  return { ...entry, ...changed };
}

function writeBody(entry: AuditEntry, time: string): string {
  return `{"time":${encodeText(time)}` +
    always("caller", entry.caller) +
    always("host", entry.host) +
    always("user", entry.user) +
    always("principal", entry.principal) +
    always("command", entry.command) +
    always("ttl", entry.ttl) +
    `,"serial":${entry.serial ?? 0}` +
    present("session_id", entry.session_id) +
    present("target_type", entry.target_type) +
    present("body_sha256", entry.body_sha256) +
    always("outcome", entry.outcome) +
    `,"exit_code":${String(entry.exit_code || 0)}` +
    present("err", entry.err) +
    present("elevation", entry.elevation) +
    (entry.pty ? ',"pty":true' : "") +
    present("policy_rule", entry.policy_rule) +
    (entry.dry_run ? ',"dry_run":true' : "") +
    present("warning", entry.warning) +
    present("approval_id", entry.approval_id) +
    present("approved_by", entry.approved_by) +
    present("approved_via", entry.approved_via) +
    present("anomaly", entry.anomaly);
}

/** What the reference's records do not have: its reader ignores the member. */
function writeExt(entry: AuditEntry, sha256: string): string {
  const members = present("command_line", entry.command_line) +
    present("command_sha256", sha256) +
    present("request_id", entry.request_id) +
    present("session_id", entry.session_id) +
    present("host_name", entry.host_name) +
    present("addr", entry.addr) +
    (entry.policy_version ? `,"policy_version":${entry.policy_version}` : "") +
    present("content_sha256", entry.content_sha256) +
    present("reason", entry.reason) +
    present("jti", entry.jti);
  return members === "" ? "" : `{${members.slice(1)}}`;
}

/** Records from before `ext` have the request's ID at the end of `command`. */
const OLD_REQUEST_ID = / rid=([A-Za-z0-9._-]{1,64})$/;

/** Reads the `command` of a record without `ext`, which an earlier release may have written. */
export function readOldCommand(text: string): { readonly command: string; readonly request_id: string } {
  return { command: text.replace(OLD_REQUEST_ID, ""), request_id: OLD_REQUEST_ID.exec(text)?.[1] ?? "" };
}

function always(name: string, text: string | undefined): string {
  return `,"${name}":${text ? encodeText(text) : '""'}`;
}

function present(name: string, text: string | undefined): string {
  return text ? `,"${name}":${encodeText(text)}` : "";
}

function excessBytes(body: string, budget: number): number {
  // A UTF-16 unit is 3 bytes at most, so that nearly every record is passed without counting.
  return body.length * 3 <= budget ? 0 : Buffer.byteLength(body) - budget;
}

function cutLongest(entry: AuditEntry, candidates: readonly TextField[], excess: number): AuditEntry {
  let longest: TextField | undefined;
  let longestBytes = 0;
  for (const field of candidates) {
    const bytes = encodedBytes(entry[field] ?? "");
    if (bytes > longestBytes) [longest, longestBytes] = [field, bytes];
  }
  if (longest === undefined || longestBytes <= TRUNCATED.length) return entry;
  const kept = prefixOfBytes(entry[longest] ?? "", longestBytes - excess - TRUNCATED.length);
  return { ...entry, [longest]: kept + TRUNCATED };
}

/** How many bytes a text takes between the quotes. */
function encodedBytes(text: string): number {
  return Buffer.byteLength(encodeText(text)) - 2;
}

/** The longest prefix that takes no more than so many bytes when encoded, never half a character. */
function prefixOfBytes(text: string, maxBytes: number): string {
  let bytes = 0;
  let end = 0;
  while (end < text.length) {
    const code = text.codePointAt(end) ?? 0;
    bytes += encodedLength(code);
    if (bytes > maxBytes) break;
    end += code > 0xffff ? 2 : 1;
  }
  return text.slice(0, end);
}

/** How many bytes {@linkcode encodeText} makes of one code point. */
function encodedLength(code: number): number {
  if (code > 0xffff) return 4;
  if (code === 0x2028 || code === 0x2029) return 6;
  if (code > 0x7ff) return 3;
  if (code > 0x7f) return 2;
  const character = String.fromCharCode(code);
  if ('"\\\b\f\n\r\t'.includes(character)) return 2;
  return code < 0x20 || "<>&".includes(character) ? 6 : 1;
}

/**
 * The content of one record; absent strings are `""`, absent numbers 0, absent booleans false. The log adds
 * `time`, `seq`, `prev_hash` and `sig`. Fields that start with `ext` are written into the record's last member, the object
 * `ext`.
 */
export interface AuditEntry {
  /** CN of whoever asked; in local mode `local`. */
  readonly caller?: string;
  /** The host's address, or the name that was asked for where no host has it. */
  readonly host?: string;
  readonly user?: string;
  readonly principal?: string;
  /** The command as it was asked for, masked before it is written. */
  readonly command?: string;
  /** The life of the certificate, such as `300s`. */
  readonly ttl?: string;
  /** Unsigned, 64 bits. */
  readonly serial?: bigint;
  /** The session that the record belongs to; also in `ext`. */
  readonly session_id?: string;
  /** Empty for SSH hosts. */
  readonly target_type?: string;
  /** SHA-256 of what the record stands for, such as a recording or a file; 64 lowercase hex digits. */
  readonly body_sha256?: string;
  /** What happened, such as `issued` or `denied`. */
  readonly outcome: string;
  readonly exit_code?: number;
  readonly err?: string;
  readonly elevation?: string;
  readonly pty?: boolean;
  readonly policy_rule?: string;
  readonly dry_run?: boolean;
  /** What enforcement would have done, or what is amiss with the record. */
  readonly warning?: string;
  readonly approval_id?: string;
  readonly approved_by?: string;
  /** How the approver was asked, such as `elicitation`. */
  readonly approved_via?: string;
  readonly anomaly?: string;
  /** `ext`: the requested command if `command` describes the request instead; written masked, with its SHA-256. */
  readonly command_line?: string;
  /** `ext`: the ID of the request. Absent: the ID of the request in which the record is appended. */
  readonly request_id?: string;
  /** `ext`: the logical name of the host or cluster. */
  readonly host_name?: string;
  /** `ext`: the address of the host, or the URL of the cluster's API server. */
  readonly addr?: string;
  /** `ext`: the version of the hosts in the database that decided. */
  readonly policy_version?: number | undefined;
  /** `ext`: SHA-256 of what a transfer writes. */
  readonly content_sha256?: string;
  /** `ext`: the reason that the caller gave, masked. */
  readonly reason?: string;
  /** `ext`: the ID of a Kubernetes token. The API server's audit log has the same ID. */
  readonly jti?: string;
}

/** Where audit records go. */
export interface AuditLog {
  /**
   * Appends one record. Resolves only when the record is durable; records are written in the order of the
   * calls.
   *
   * @throws {AppError} `audit_unavailable` when it could not be made durable
   */
  append(entry: AuditEntry): Promise<void>;
  /**
   * Checks whether a record could be appended: the log is unchanged and the disk takes more bytes.
   *
   * @throws {Error} with the reason why not
   */
  check(): void;
  /** Waits for the appends under way, then closes. */
  close(): Promise<void>;
}

/** What happens to an action whose record can't be written: `closed` withholds it, `open` lets it proceed. */
export type AuditFailMode = "closed" | "open";
