/**
 * Audit records: their members, their text, and the chain that makes a log tamper-evident. Each record
 * carries its number, the hash of the previous line, and a signature over its line with an empty `sig`. Lines
 * are signed and checked as raw bytes and never serialized again.
 *
 * The signature does not cover `ext`, the last member, which the reference's verifier ignores. The hash
 * covers the whole line, so the signature of the next record covers it.
 *
 * Not protected: an attacker who can write the file of a stopped service can remove the last records, or
 * change the `ext` of the last one. Only a remembered head reveals such a change (`broker-ctl audit verify
 * --since`).
 *
 * @module
 */
import { Buffer } from "node:buffer";
import { createHash, createPrivateKey, createPublicKey, type KeyObject, sign, verify } from "node:crypto";
import { configError } from "../errors.ts";
import { parseStandardJson } from "../json.ts";

/** A signed decision in a record. Its texts come from a verified proof, so they are never masked or truncated. */
export interface RecordedApproval {
  readonly approver: string;
  /** `ssh` or `passkey`. */
  readonly kind: string;
  /** The fingerprint of the SSH key, or the ID of the passkey. */
  readonly credential: string;
  readonly document_sha256: string;
  /** The proof as the signer received it. */
  readonly proof: Readonly<Record<string, string>>;
}

/** The content of a record. The log adds `time`, `seq`, `prev_hash` and `sig`. */
export interface AuditEntry {
  /** The CN of a client certificate, the end user of an MCP frontend, or the trigger of a reload: `SIGHUP`. */
  readonly caller?: string;
  /** The host's address, or the requested name if no host has it. */
  readonly host?: string;
  /** The account on the host. */
  readonly user?: string;
  /** The principal of the certificate. */
  readonly principal?: string;
  /** The command that ran, or the request in words: `role=target purpose=oneshot`. */
  readonly command?: string;
  /** In local mode: the lifetime of the certificate or token, such as `120s`. */
  readonly ttl?: string;
  /** The serial of the certificate or token: unsigned, 64 bits; 0 if none was issued. */
  readonly serial?: bigint;
  /** The session that the record belongs to. */
  readonly session_id?: string;
  /** `k8s` for an action on a cluster. */
  readonly target_type?: string;
  /** SHA-256 of the recording or file that the record is about. */
  readonly body_sha256?: string;
  /** The kind of event: see Outcomes. */
  readonly outcome: string;
  /** The exit code of the command; 0 if none ran. */
  readonly exit_code?: number;
  /** The reason of a denial or failure. */
  readonly err?: string;
  /** `sudo:<account>` if the command ran with sudo. */
  readonly elevation?: string;
  /** The command ran in a terminal. */
  readonly pty?: boolean;
  /** The rule that decided. */
  readonly policy_rule?: string;
  /** The request was a dry run, so nothing was issued and nothing ran. */
  readonly dry_run?: boolean;
  /** The effect that enforcement would have had, an approver's comment, or a fault of the record. */
  readonly warning?: string;
  /** The approval that the record belongs to. */
  readonly approval_id?: string;
  /** The approver. */
  readonly approved_by?: string;
  /** `elicitation` if the end user approved in the chat of the MCP client. */
  readonly approved_via?: string;
  /** What is unusual: `new-host:<host>`, `new-command:<program>`, separated by commas. */
  readonly anomaly?: string;
  // The following members are in `ext`, with `session_id`.
  /** The requested command if `command` describes the request instead. */
  readonly command_line?: string;
  /** By default the id of the current request. */
  readonly request_id?: string;
  /** The logical name of the host or cluster. */
  readonly host_name?: string;
  /** The address of the host, or the URL of the cluster's API server. */
  readonly addr?: string;
  /** In the control plane's records: the end user that the caller named. The signer has it in `command`. */
  readonly end_user?: string;
  /** The version of the hosts in the database that decided. */
  readonly policy_version?: number | undefined;
  /** SHA-256 of the content that a transfer writes. */
  readonly content_sha256?: string;
  /** The requester's words: untrusted text. */
  readonly reason?: string;
  /** The signed decisions that approved the request. `broker-ctl audit verify --approvals` verifies them again. */
  readonly approvals?: readonly RecordedApproval[];
  /** The id of a Kubernetes token, which the API server's audit log also has. */
  readonly jti?: string;
  /**
   * JSON text, present if the policy decided: `outcome` (what the config decides without grants and waivers), `groups` of
   * the end user, `via` (the forwarder), `verified` (end user), `forced` (fields of an apply).
   */
  readonly decision?: string;
}

/** The longest line of a log, in bytes without its newline. Readers reject longer lines. */
export const MAX_LINE_BYTES = 262_144;
/** The space for `seq`, `prev_hash` and `sig`, which need less. */
const RESERVED_BYTES = 1024;
/** The end of a truncated text. */
export const TRUNCATED = "...[TRUNCATED]";

const FREE_TEXT = ["command", "command_line", "reason", "err", "warning", "anomaly"] as const;

/** A record without its chain: a JSON object that is not closed yet, and the JSON object `ext` or an empty text. */
export interface RecordText {
  readonly body: string;
  readonly ext: string;
}

/**
 * The text of a record. If its line would be too long, the longest free text is truncated first, then other text.
 *
 * @param options.redact is applied to free text before it is truncated
 * @throws {RangeError} for an exit code that is not a safe integer, or a serial that does not fit 64 bits, unsigned
 */
export function encodeRecord(
  entry: AuditEntry,
  { time, redact = (text) => text }: { readonly time: string; readonly redact?: (text: string) => string },
): RecordText {
  const { exit_code = 0, serial = 0n, command_line } = entry;
  if (!Number.isSafeInteger(exit_code)) throw new RangeError(`Exit code "${exit_code}" is not an integer`);
  if (serial < 0n || serial > 0xffff_ffff_ffff_ffffn) {
    throw new RangeError(`Serial "${serial}" is not an unsigned 64-bit number`);
  }
  // The hash of the requested command, computed before the command is masked and truncated.
  const sha256 = command_line ? createHash("sha256").update(command_line).digest("hex") : "";
  const masked = FREE_TEXT.map((name) => [name, entry[name] && redact(entry[name])]);
  let fields: AuditEntry = { ...entry, ...Object.fromEntries(masked) };
  const write = () => ({ body: writeBody(fields, time), ext: writeExt(fields, sha256) });
  let text = write();
  for (const isFree of [true, false]) {
    for (let excess = excessOf(text); excess > 0; excess = excessOf(text)) {
      const cut = cutLongest(fields, isFree, excess);
      if (cut === undefined) break;
      fields = cut;
      text = write();
    }
  }
  return text;
}

/** RFC 3339 in UTC: the fraction of the second without trailing zeros, and absent if it is zero. */
export function formatTime(ms: number): string {
  const text = new Date(ms).toISOString();
  return text.endsWith("0Z") ? text.replace(/(?:\.000|0{1,2})Z$/, "Z") : text;
}

/** A JSON string with the escapes of the record format. Lone surrogates become U+FFFD. */
export function encodeText(text: string): string {
  if (PLAIN.test(text)) return `"${text}"`;
  return escapeJson(JSON.stringify(text.toWellFormed()));
}

function escapeJson(json: string): string {
  return json.replace(
    /[<>&\u2028\u2029]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

/** Matches nearly every text: printable ASCII without characters that need an escape. */
const PLAIN = /^[ !#-%'-;=?-[\]-~]*$/;

function writeBody(entry: AuditEntry, time: string): string {
  return `{"time":${encodeText(time)}` +
    always(entry, "caller", "host", "user", "principal", "command", "ttl") +
    `,"serial":${entry.serial ?? 0}` +
    present(entry, "session_id", "target_type", "body_sha256") +
    always(entry, "outcome") +
    `,"exit_code":${String(entry.exit_code || 0)}` +
    present(entry, "err", "elevation") +
    (entry.pty ? ',"pty":true' : "") +
    present(entry, "policy_rule") +
    (entry.dry_run ? ',"dry_run":true' : "") +
    present(entry, "warning", "approval_id", "approved_by", "approved_via", "anomaly");
}

function writeExt(entry: AuditEntry, sha256: string): string {
  const members = present(entry, "command_line") +
    (sha256 === "" ? "" : `,"command_sha256":"${sha256}"`) +
    present(entry, "request_id", "session_id", "host_name", "addr", "end_user") +
    (entry.policy_version ? `,"policy_version":${entry.policy_version}` : "") +
    present(entry, "content_sha256", "reason", "jti", "decision") +
    (entry.approvals?.length ? `,"approvals":${escapeJson(JSON.stringify(entry.approvals))}` : "");
  return members === "" ? "" : `{${members.slice(1)}}`;
}

type TextMember = Exclude<
  keyof AuditEntry,
  "serial" | "exit_code" | "pty" | "dry_run" | "policy_version" | "approvals"
>;

/** Writes members in this order, including empty ones. */
function always(entry: AuditEntry, ...names: readonly TextMember[]): string {
  let members = "";
  for (const name of names) members += `,"${name}":${encodeText(entry[name] ?? "")}`;
  return members;
}

/** Writes members in this order, without empty ones. */
function present(entry: AuditEntry, ...names: readonly TextMember[]): string {
  let members = "";
  for (const name of names) if (entry[name]) members += `,"${name}":${encodeText(entry[name])}`;
  return members;
}

const OLD_REQUEST_ID = / rid=([A-Za-z0-9._-]{1,64})$/;

/** Splits the `command` of a record without `ext`: earlier releases wrote the request's id at its end. */
export function readOldCommand(text: string): { readonly command: string; readonly request_id: string } {
  return { command: text.replace(OLD_REQUEST_ID, ""), request_id: OLD_REQUEST_ID.exec(text)?.[1] ?? "" };
}

function excessOf({ body, ext }: RecordText): number {
  const budget = MAX_LINE_BYTES - RESERVED_BYTES;
  // A UTF-16 unit has at most 3 bytes, so nearly every record needs no count.
  if ((body.length + ext.length) * 3 <= budget) return 0;
  return Buffer.byteLength(body) + Buffer.byteLength(ext) - budget;
}

/** Truncates the longest text by the excess; `undefined` if no text can become shorter. */
function cutLongest(entry: AuditEntry, isFree: boolean, excess: number): AuditEntry | undefined {
  let longest = { name: "", text: "", bytes: TRUNCATED.length };
  for (const [name, text] of Object.entries(entry)) {
    if (typeof text !== "string" || FREE_TEXT.some((each) => each === name) !== isFree) continue;
    const bytes = encodedBytes(text);
    if (bytes > longest.bytes) longest = { name, text, bytes };
  }
  if (longest.name === "") return undefined;
  const kept = prefixOfBytes(longest.text, longest.bytes - excess - TRUNCATED.length);
  return { ...entry, [longest.name]: kept + TRUNCATED };
}

function encodedBytes(text: string): number {
  return Buffer.byteLength(encodeText(text)) - 2;
}

/** The longest prefix of whole characters with this number of encoded bytes. */
function prefixOfBytes(text: string, maxBytes: number): string {
  let [bytes, end] = [0, 0];
  for (const character of text) {
    bytes += PLAIN.test(character) ? 1 : encodedBytes(character);
    if (bytes > maxBytes) break;
    end += character.length;
  }
  return text.slice(0, end);
}

/** The end of a chain. */
export interface ChainHead {
  /** The number of the last record in its file; 0 if there is none. */
  readonly seq: number;
  /** SHA-256 of the last line without its newline, in hex; empty if there is no line. */
  readonly hash: string;
}

/** The head of an empty log. */
export const GENESIS: ChainHead = { seq: 0, hash: "" };

/** Signs records. */
export interface AuditKey {
  readonly publicKey: AuditPublicKey;
  sign(bytes: Uint8Array): Uint8Array;
}

/** Checks signatures of records. */
export interface AuditPublicKey {
  /** The 32 bytes of the key. */
  readonly bytes: Uint8Array;
  verify(bytes: Uint8Array, signature: Uint8Array): boolean;
}

/** RFC 8410: the bytes before an Ed25519 seed in PKCS #8, and before a public key in SPKI. */
const PKCS8_PREFIX = Buffer.from("302e020100300506032b657004220420", "hex");
const SPKI_PREFIX = Buffer.from("302a300506032b6570032100", "hex");

/** The key of a file whose first 32 bytes are the seed. @throws {AppError} `invalid_config` for a shorter file */
export function createAuditKey(seed: Uint8Array): AuditKey {
  if (seed.length < 32) {
    throw configError(`Audit key has ${seed.length} bytes: at least 32 are needed`);
  }
  const der = Buffer.concat([PKCS8_PREFIX, seed.subarray(0, 32)]);
  const privateKey = createPrivateKey({ key: der, format: "der", type: "pkcs8" });
  der.fill(0);
  return {
    publicKey: fromKeyObject(createPublicKey(privateKey)),
    sign: (bytes) => sign(null, bytes, privateKey),
  };
}

/** The public key from its 32 bytes. @throws {AppError} `invalid_config` for another length */
export function createAuditPublicKey(bytes: Uint8Array): AuditPublicKey {
  if (bytes.length !== 32) {
    throw configError(`Audit public key has ${bytes.length} bytes: it must be 32`);
  }
  const der = Buffer.concat([SPKI_PREFIX, bytes]);
  return fromKeyObject(createPublicKey({ key: der, format: "der", type: "spki" }));
}

function fromKeyObject(key: KeyObject): AuditPublicKey {
  return {
    bytes: new Uint8Array(key.export({ format: "der", type: "spki" }).subarray(SPKI_PREFIX.length)),
    verify: (bytes, signature) => verify(null, bytes, key, signature),
  };
}

/** Links a record to the chain and signs it. The line has no newline. */
export function seal(
  { body, ext }: RecordText,
  head: ChainHead,
  key: AuditKey,
): { readonly line: string; readonly next: ChainHead } {
  const seq = head.seq + 1;
  const unsigned = `${body},"seq":${seq},"prev_hash":"${head.hash}","sig":"`;
  const signature = Buffer.from(key.sign(Buffer.from(`${unsigned}"}`)));
  const line = `${unsigned}${signature.toString("base64")}"${ext && `,"ext":${ext}`}}`;
  return { line, next: { seq, hash: hashLine(line) } };
}

/** SHA-256 of a line without its newline, in lowercase hex. */
export function hashLine(line: Uint8Array | string): string {
  return createHash("sha256").update(line).digest("hex");
}

/** The chain members of a line. */
interface ParsedLine {
  readonly seq: bigint;
  readonly prevHash: string;
  /** The line without `ext`, and with an empty `sig`. */
  readonly signedBytes: Uint8Array;
  readonly signature: Uint8Array;
}

// Matches only the end of a record, because quotes inside a JSON string follow a backslash.
const TAIL = /^,"seq":(\d{1,20}),"prev_hash":"([0-9a-f]{64}|)","sig":"([A-Za-z0-9+/]{86}==)"$/;
const TAIL_START = Buffer.from(',"seq":');
const EXT_START = Buffer.from(',"ext":');
const MAX_TAIL_BYTES = 256;

const SIGNED_END = Buffer.from('"}');

/**
 * Reads a line without its newline; `undefined` unless it is a UTF-8 JSON object that ends in `seq`, `prev_hash`, `sig`
 * and at most the object `ext`.
 */
export function parseLine(line: Uint8Array): ParsedLine | undefined {
  const bytes = Buffer.from(line.buffer, line.byteOffset, line.byteLength);
  const last = bytes.length - 1;
  if (bytes[last] !== 0x7d) return undefined;
  const extStart = bytes.indexOf(EXT_START);
  // Check that `ext` is a complete object, because another member after `ext` would not be signed.
  if (extStart >= 0 && !isJsonObject(bytes.subarray(extStart + EXT_START.length, last))) return undefined;
  const end = extStart < 0 ? last : extStart;
  const tailStart = bytes.lastIndexOf(TAIL_START, end);
  if (tailStart < 0 || end - tailStart > MAX_TAIL_BYTES) return undefined;
  const [, seq, prevHash, sig] = TAIL.exec(bytes.toString("latin1", tailStart, end)) ?? [];
  if (seq === undefined || prevHash === undefined || sig === undefined) return undefined;
  const signature = Buffer.from(sig, "base64");
  // The last character has four unused bits, so compare the encoding: only one spelling of a signature is
  // valid.
  if (signature.toString("base64") !== sig) return undefined;
  const signedBytes = Buffer.concat([bytes.subarray(0, end - 1 - sig.length), SIGNED_END]);
  if (!isJsonObject(signedBytes)) return undefined;
  return { seq: BigInt(seq), prevHash, signedBytes, signature };
}

/** Whether the key made the line's signature. */
export function verifySignature(line: ParsedLine, key: AuditPublicKey): boolean {
  return key.verify(line.signedBytes, line.signature);
}

function isJsonObject(line: Uint8Array): boolean {
  return line[0] === 0x7b && isJson(line);
}

const DECODER = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Whether bytes are JSON in UTF-8. */
export function isJson(bytes: Uint8Array): boolean {
  try {
    parseStandardJson(DECODER.decode(bytes));
    return true;
  } catch {
    return false;
  }
}
