/**
 * Which TLS connections have proved who they are.
 *
 * A session that a client resumes brings its certificate along without any check: the runtime reports it
 * `authorized` even when the handshake that began the session was not, so that a certificate of any foreign
 * CA would become a good one by connecting twice. Resumption cannot be turned off either. Hence a resumed
 * session counts only when its certificate has been verified here, in a full handshake of this listener;
 * only the holder of the private key can have begun the session with it.
 *
 * @module
 */
import type { TLSSocket } from "node:tls";
import { type CallerCn, callerFromCertificate } from "./caller.ts";

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
