/**
 * Who is calling: from the client certificate of a mutual TLS connection to a caller's name.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { callerFromCertificate } from "@gateway/shared/http";
 *
 * assert.equal(callerFromCertificate(true, "broker-1"), "broker-1");
 * assert.equal(callerFromCertificate(false, "broker-1"), undefined);
 * ```
 *
 * @module
 */
import { hasUnseen } from "../text.ts";
import type { TLSSocket } from "node:tls";
import { AppError } from "../errors.ts";

/** The verified common name of a client certificate: the caller's identity. */
export type CallerCn = string & { readonly __brand: "CallerCn" };

/**
 * The caller's name, or `undefined` when nobody is identified.
 *
 * @param authorized whether the TLS layer verified the certificate; without it a certificate proves nothing,
 * for Node hands out the subject of unverified ones too
 * @param commonName the subject's CN as `node:tls` gives it: a string, an array when the subject has several
 * (ambiguous, hence nobody), or `undefined`
 */
export function callerFromCertificate(authorized: boolean, commonName: unknown): CallerCn | undefined {
  if (!authorized || !isCallerCn(commonName)) return undefined;
  return commonName;
}

function isCallerCn(value: unknown): value is CallerCn {
  return typeof value === "string" && value !== "" && !hasUnseen(value);
}

/** The identity of one TLS connection. */
export interface PeerCertificate {
  readonly caller: CallerCn;
  /** When the certificate ends, in milliseconds since the epoch: a connection can outlive it. */
  readonly validUntil: number;
}

/** What a certificate itself shows of why the TLS layer rejected it, or `undefined`. */
export function findCertificateFault(
  certificate: ReturnType<TLSSocket["getPeerCertificate"]>,
  now: number,
): string | undefined {
  const end = Date.parse(certificate?.valid_to);
  if (end < now) return describeExpiry(end);
  const { raw } = certificate ?? {};
  // RFC 5280 section 4.1: Certificate and tbsCertificate are sequences, and only versions 2 and 3 begin with [0].
  const content = (at: number) => at + 2 + ((raw?.[at + 1] ?? 0) > 0x80 ? (raw?.[at + 1] ?? 0) & 0x7f : 0);
  if (raw === undefined || raw[content(content(0))] === 0xa0) return undefined;
  return "The client certificate is X.509 version 1: issue it as version 3, for instance with an extendedKeyUsage";
}

/** The answer to a certificate that expired. */
export function describeExpiry(end: number): string {
  return `The client certificate expired at ${new Date(end).toISOString()}: renew it`;
}

/** More than the sessions that a listener can remember; beyond it the longest unused is forgotten. */
const MAX_VERIFIED = 10_000;

/** Identifies the peers of one listener. */
export class PeerCertificates {
  /** SHA-256 fingerprints of certificates that passed a full handshake, the longest unused first. */
  readonly #verified = new Set<string>();

  /** Who is at the other end; `undefined` when that is not proved. Call it once a connection: it is slow. */
  identify(socket: TLSSocket): PeerCertificate | undefined {
    if (socket.authorized !== true) return undefined;
    const { subject, fingerprint256, valid_to } = socket.getPeerCertificate();
    if (!this.#isVerified(fingerprint256, socket.isSessionReused() === false)) return undefined;
    const caller = callerFromCertificate(true, subject?.CN);
    const validUntil = Date.parse(valid_to);
    return caller === undefined || Number.isNaN(validUntil) ? undefined : { caller, validUntil };
  }

  #isVerified(fingerprint: unknown, isFullHandshake: boolean): boolean {
    if (typeof fingerprint !== "string" || fingerprint === "") return false;
    // Taken out and put back: the set keeps the order of last use.
    const isKnown = this.#verified.delete(fingerprint);
    if (!isKnown && !isFullHandshake) return false;
    this.#verified.add(fingerprint);
    for (const oldest of this.#verified) {
      if (this.#verified.size <= MAX_VERIFIED) break;
      this.#verified.delete(oldest);
    }
    return true;
  }
}

/**
 * Reads the list: a CN a line, `#` begins a comment line.
 *
 * @throws {AppError} `invalid_config` for a line that can't be a CN, and for a last line without its end: a list that
 * was written in part must not count as whole
 */
export function parseDeniedCallers(text: string): ReadonlySet<string> {
  if (text !== "" && !text.endsWith("\n")) {
    throw new AppError("invalid_config", "its last line has no end, it may be written in part");
  }
  const lines = text.split("\n").map((line) => line.trim());
  const bad = lines.findIndex((line) => hasUnseen(line));
  if (bad >= 0) throw new AppError("invalid_config", `line ${bad + 1} can't be a CN`);
  return new Set(lines.filter((line) => line !== "" && !line.startsWith("#")));
}
