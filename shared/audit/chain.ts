/**
 * What makes a log tamper-evident: each record carries its number, the hash of the line before it and a
 * signature over its own line with an empty `sig`. Lines are signed and checked as raw bytes, never
 * serialized again. The signature does not cover `ext`, the last member, which the reference's verifier ignores. The
 * hash covers the whole line, so the signature of the next record covers the `ext` of this one.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { createAuditKey, GENESIS, parseLine, seal, verifySignature } from "@gateway/shared/audit";
 *
 * const key = createAuditKey(new Uint8Array(32).fill(1));
 * const { line, next } = seal({ body: '{"outcome":"issued"', ext: '{"request_id":"r-1"}' }, GENESIS, key);
 * const record = parseLine(new TextEncoder().encode(line));
 * assert.equal(record?.seq, 1n);
 * assert.equal(record !== undefined && verifySignature(record, key.publicKey), true);
 * assert.equal(next.seq, 1);
 * ```
 *
 * Not protected: an attacker who can write the file of a stopped service can remove the last records, or change the
 * `ext` of the last one. Only a remembered head shows that (`broker-ctl audit verify --since`).
 *
 * @module
 */
import { Buffer } from "node:buffer";
import { createHash, createPrivateKey, createPublicKey, type KeyObject, sign, verify } from "node:crypto";
import { AppError } from "../errors.ts";
import { parseStandardJson } from "../json.ts";
import type { RecordText } from "./record.ts";

/** The end of a chain, to which the next record is linked. */
export interface ChainHead {
  /** The number of the last record in its file; 0 when the file has none. */
  readonly seq: number;
  /** SHA-256 of the last line without its newline, 64 hex digits; empty when there is no line at all. */
  readonly hash: string;
}

/** The head of an empty log. */
export const GENESIS: ChainHead = { seq: 0, hash: "" };

/** Signs records; the seed does not leave it. */
export interface AuditKey {
  readonly publicKey: AuditPublicKey;
  /** 64 bytes. */
  sign(bytes: Uint8Array): Uint8Array;
}

/** Checks signatures of records. */
export interface AuditPublicKey {
  /** The key itself, 32 bytes. */
  readonly bytes: Uint8Array;
  /** Whether the signature is of these bytes, by this key. */
  verify(bytes: Uint8Array, signature: Uint8Array): boolean;
}

/** RFC 8410: what stands before the 32 bytes of an Ed25519 seed in PKCS #8, and of a public key in SPKI. */
const PKCS8_PREFIX = Buffer.from("302e020100300506032b657004220420", "hex");
const SPKI_PREFIX = Buffer.from("302a300506032b6570032100", "hex");

/**
 * The key of an audit key file.
 *
 * @param seed the content of the file: at least 32 bytes, of which the first 32 count
 * @throws {AppError} `invalid_config` when it is shorter
 */
export function createAuditKey(seed: Uint8Array): AuditKey {
  if (seed.length < 32) {
    throw new AppError("invalid_config", `Audit key has ${seed.length} bytes: at least 32 are needed`);
  }
  const der = Buffer.concat([PKCS8_PREFIX, seed.subarray(0, 32)]);
  const privateKey = createPrivateKey({ key: der, format: "der", type: "pkcs8" });
  der.fill(0);
  return {
    publicKey: fromKeyObject(createPublicKey(privateKey)),
    sign: (bytes) => sign(null, bytes, privateKey),
  };
}

/**
 * The public key that checks a log where its seed is not at hand.
 *
 * @param bytes 32 bytes
 * @throws {AppError} `invalid_config` for another length
 */
export function createAuditPublicKey(bytes: Uint8Array): AuditPublicKey {
  if (bytes.length !== 32) {
    throw new AppError("invalid_config", `Audit public key has ${bytes.length} bytes: it must be 32`);
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

/** A finished line, without its newline, and the head after it. */
interface SealedLine {
  /** As it goes into the file. */
  readonly line: string;
  /** What the record after it is linked to. */
  readonly next: ChainHead;
}

/** Links a record to the chain and signs it. */
export function seal({ body, ext }: RecordText, head: ChainHead, key: AuditKey): SealedLine {
  const seq = head.seq + 1;
  const unsigned = `${body},"seq":${seq},"prev_hash":"${head.hash}","sig":"`;
  const signature = Buffer.from(key.sign(Buffer.from(`${unsigned}"}`)));
  const line = `${unsigned}${signature.toString("base64")}"${ext && `,"ext":${ext}`}}`;
  return { line, next: { seq, hash: hashLine(line) } };
}

/** SHA-256 of a line without its newline, 64 lower-case hex digits. */
export function hashLine(line: Uint8Array | string): string {
  return createHash("sha256").update(line).digest("hex");
}

/** What the chain reads off a line; the bytes are the line's own. */
export interface ParsedLine {
  /** The number of the record; unsigned, 64 bits. */
  readonly seq: bigint;
  /** SHA-256 of the line before, 64 lowercase hex digits. */
  readonly prevHash: string;
  /** The line without `ext`, with the value of `sig` emptied. */
  readonly signedBytes: Uint8Array;
  readonly signature: Uint8Array;
}

// Nothing inside a JSON string can look like this: there, quotes have a backslash before them.
const TAIL = /^,"seq":(\d{1,20}),"prev_hash":"([0-9a-f]{64}|)","sig":"([A-Za-z0-9+/]{86}==)"$/;
const TAIL_START = Buffer.from(',"seq":');
const EXT_START = Buffer.from(',"ext":');
const SIGNED_END = Buffer.from('"}');
const MAX_TAIL_BYTES = 256;
const DECODER = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/**
 * Reads a line without its newline.
 *
 * @returns undefined when it is not a record: not UTF-8, not one JSON object, or not ending in `seq`,
 * `prev_hash`, `sig` and at most the object `ext`
 */
export function parseLine(line: Uint8Array): ParsedLine | undefined {
  const bytes = Buffer.from(line.buffer, line.byteOffset, line.byteLength);
  const last = bytes.length - 1;
  if (bytes[last] !== 0x7d) return undefined;
  const extStart = bytes.indexOf(EXT_START);
  // By itself: what follows `ext` in the same line would be a member that is not signed.
  if (extStart >= 0 && !isJsonObject(bytes.subarray(extStart + EXT_START.length, last))) return undefined;
  const end = extStart < 0 ? last : extStart;
  const tailStart = bytes.lastIndexOf(TAIL_START, end);
  if (tailStart < 0 || end - tailStart > MAX_TAIL_BYTES) return undefined;
  const [, seq, prevHash, sig] = TAIL.exec(bytes.toString("latin1", tailStart, end)) ?? [];
  if (seq === undefined || prevHash === undefined || sig === undefined) return undefined;
  const signature = Buffer.from(sig, "base64");
  // The last character has four unused bits: only one spelling of a signature counts.
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
  if (line[0] !== 0x7b) return false;
  try {
    parseStandardJson(DECODER.decode(line));
    return true;
  } catch {
    return false;
  }
}
