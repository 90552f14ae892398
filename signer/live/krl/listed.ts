import { encodeKrl, formatKeyId, type KeyIdParts, SerialSet } from "@gateway/shared/ssh";
import type { Steps } from "@gateway/shared/clock";
import type { IssuedCertificates } from "./issued.ts";
import { CLOCK_SKEW_SECONDS, type KeptRevocation, readSerial, REVOCATION_SECONDS } from "./revocations.ts";

/** What a certificate, or a token, can be revoked by. */
export interface CertificateNames {
  readonly serial: bigint;
  readonly keyId?: KeyIdParts;
}

/** Serials listed at a time: all that is larger is moved for a few as for many. */
const AT_ONCE = 1000;

/**
 * The serials and key ids that are revoked, each until no host believes a certificate that has it; and the requests that
 * nothing may come of any more, which no list for hosts can hold.
 */
export class ListedNames {
  readonly #serials = new SerialSet();
  /** Until when, in seconds since the epoch. */
  readonly #keyIds = new Map<string, number>();

  readonly #requests = new Map<string, number>();

  /** How many a list for hosts has. */
  get size(): number {
    return this.#serials.size + this.#keyIds.size;
  }

  has({ serial, keyId }: CertificateNames): boolean {
    if (this.#serials.has(serial)) return true;
    return keyId !== undefined && this.#keyIds.size > 0 && this.#keyIds.has(formatKeyId(keyId));
  }

  /** Whether nobody has the answer to a request any more, by one of its names; they are made only where there are such. */
  hasRequest(names: () => readonly string[]): boolean {
    return this.#requests.size > 0 && names().some((name) => this.#requests.has(name));
  }

  /** How many requests of a caller have been given up, as far as that is remembered. */
  requestsOf(caller: string): number {
    const isOf = (name: string) => name.slice(name.indexOf(" ") + 1) === caller;
    return this.#requests.keys().reduce((sum, name) => isOf(name) ? sum + 1 : sum, 0);
  }

  /**
   * Lists what a revocation is of; gives how many certificates of those that are known were not listed before. Certificates
   * may be issued between the steps; do nothing else with the list then.
   */
  *add({ kind, value, revokedAt }: KeptRevocation, among: IssuedCertificates): Steps<number> {
    const until = Math.floor(revokedAt / 1000);
    if (kind === "request") {
      this.#requests.set(value, until + REVOCATION_SECONDS);
      return 0;
    }
    // Also where this signer does not know it: whoever names one knows why.
    const isNewKeyId = kind === "key_id" && !this.#keyIds.has(value);
    if (kind === "key_id") this.#keyIds.set(value, until + REVOCATION_SECONDS);
    let listed = 0;
    const part = new Map<bigint, number>();
    for (const { serials, validBefore } of among.find({ kind, value }, until)) {
      if (kind === "key_id") listed += isNewKeyId ? serials.length : 0;
      else for (const serial of serials) part.set(serial, validBefore + CLOCK_SKEW_SECONDS);
      if (part.size >= AT_ONCE) listed += this.#take(part);
      yield;
    }
    listed += this.#take(part);
    const serial = kind === "serial" ? readSerial(value) : undefined;
    if (serial !== undefined) this.#take(new Map([[serial, until + REVOCATION_SECONDS]]));
    return listed;
  }

  /** Forgets what was to be listed until a second since the epoch; tells how many those are. */
  forget(nowSeconds: number): number {
    const before = this.size;
    this.#serials.forget(nowSeconds);
    for (const [keyId, until] of this.#keyIds) if (until <= nowSeconds) this.#keyIds.delete(keyId);
    for (const [request, until] of this.#requests) if (until <= nowSeconds) this.#requests.delete(request);
    return before - this.size;
  }

  /** All of them as sshd reads them. */
  encode(version: number, nowMs: number): Uint8Array<ArrayBuffer> {
    return encodeKrl({
      version: BigInt(version),
      generatedAt: Math.floor(nowMs / 1000),
      comment: "gateway",
      serials: this.#serials,
      keyIds: this.#keyIds.keys(),
    });
  }

  /** Empties the map; gives how many were not listed before. No list can hold a 0. */
  #take(serials: Map<bigint, number>): number {
    serials.delete(0n);
    const added = serials.size === 0 ? 0 : this.#serials.add(serials);
    serials.clear();
    return added;
  }
}
