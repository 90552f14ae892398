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
