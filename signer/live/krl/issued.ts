/**
 * Which certificates are still valid, and whose they are: what a freeze revokes.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { IssuedCertificates } from "./issued.ts";
 *
 * const holder = { peer: "broker-1", caller: "broker-1", endUser: "", host: "web01", role: "target", elevationPrefix: "", pty: false };
 * const issued = new IssuedCertificates();
 * issued.add(holder, { serial: 7n, issuedAt: 100, validBefore: 400 });
 * const found = issued.find({ kind: "caller", value: "broker-1" }, Infinity);
 * assert.deepEqual([...found], [{ serials: [7n], validBefore: 400 }]);
 * ```
 *
 * @module
 */
import { isSameIdentity } from "@gateway/shared/text";
import { formatKeyId, type KeyIdParts } from "@gateway/shared/ssh";
import { type CertificateSubject, CLOCK_SKEW_SECONDS, readSerial } from "./revocations.ts";

/** Whose a certificate is and what for: all that its key id tells but the time, and through whom it was asked for. */
export interface CertificateHolder extends Required<Omit<KeyIdParts, "issuedAt">> {
  /** The CN of the connection: the forwarder, where there was one. */
  readonly peer: string;
}

/** Certificates of one holder, issued in the same second for as long. */
export interface IssuedBatch {
  readonly holder: CertificateHolder;
  /** Seconds since the epoch. */
  readonly issuedAt: number;
  /** Seconds since the epoch. */
  readonly validBefore: number;
  readonly serials: readonly bigint[];
}

export interface IssuedFacts extends Pick<IssuedBatch, "issuedAt" | "validBefore"> {
  readonly serial: bigint;
}

/** Certificates that were found, a thousand at most; they end at the same time. */
export type FoundBatch = Pick<IssuedBatch, "serials" | "validBefore">;

/** How much is remembered at a time, in units of 8 bytes: a certificate is one, and one with facts of its own so much more. */
interface IssuedLimits {
  readonly total: number;
  readonly perCaller: number;
}

const LIMITS: IssuedLimits = { total: 4_000_000, perCaller: 2_000_000 };
/** A batch takes as much memory as so many serials. */
const BATCH_COST = 64;
/** The most that are found at a time: what is done with them takes less than a millisecond. */
const FOUND_AT_ONCE = 1000;

/** Serials in 8 bytes each, where a bigint of an array takes 32. */
class Serials {
  #values = new BigUint64Array(2);
  #length = 0;

  get length(): number {
    return this.#length;
  }

  push(serial: bigint): void {
    if (this.#length === this.#values.length) {
      const larger = new BigUint64Array(2 * this.#length);
      larger.set(this.#values);
      this.#values = larger;
    }
    this.#values[this.#length++] = serial;
  }

  /** Compared where they lie: as bigints of their own they would take a hundred times as long. */
  includes(serial: bigint): boolean {
    return this.#values.subarray(0, this.#length).includes(serial);
  }

  /** Those of now, also where others come meanwhile. */
  [Symbol.iterator](): IterableIterator<bigint> {
    return this.#values.subarray(0, this.#length).values();
  }
}

/** Batches that are filled, by what their certificates have in common. */
export type OpenBatches = Map<string, Omit<IssuedBatch, "serials"> & { readonly serials: Serials }>;

/** Puts a certificate with others of its kind; tells whether it is the first. */
export function addToBatches(batches: OpenBatches, holder: CertificateHolder, facts: IssuedFacts): boolean {
  const { serial, issuedAt, validBefore } = facts;
  const key = keyOf(holder, facts);
  const batch = batches.get(key);
  if (batch !== undefined) {
    batch.serials.push(serial);
    return false;
  }
  const serials = new Serials();
  serials.push(serial);
  batches.set(key, { holder, issuedAt, validBefore, serials });
  return true;
}

/** The certificates that are still valid, in memory. */
export class IssuedCertificates {
  readonly #limits: IssuedLimits;
  /** By the second in which they end. */
  readonly #byEnd = new Map<number, OpenBatches>();
  readonly #costs = new Map<string, number>();
  #cost = 0;

  constructor(limits: IssuedLimits = LIMITS) {
    this.#limits = limits;
  }

  /** Whether one more can be remembered: a certificate that is not could not be revoked. */
  hasRoomFor(caller: string): boolean {
    const { total, perCaller } = this.#limits;
    return this.#cost + BATCH_COST < total && (this.#costs.get(caller) ?? 0) + BATCH_COST < perCaller;
  }

  add(holder: CertificateHolder, facts: IssuedFacts): void {
    const batches = this.#byEnd.get(facts.validBefore) ?? new Map();
    this.#byEnd.set(facts.validBefore, batches);
    this.#charge(holder.caller, addToBatches(batches, holder, facts) ? 1 + BATCH_COST : 1);
  }

  /**
   * Those of a subject that were issued at a second or before, a part at a time; others may be added meanwhile. Parts can
   * be empty: what there is of others is looked through as well.
   */
  *find(subject: CertificateSubject, issuedUntil: number): Generator<FoundBatch> {
    for (const batches of this.#byEnd.values()) {
      for (const batch of batches.values()) {
        if (batch.issuedAt > issuedUntil) continue;
        for (const serials of inParts(serialsOf(batch, subject))) {
          yield { serials, validBefore: batch.validBefore };
        }
      }
    }
  }

  /** When the last one of a subject was issued, in seconds since the epoch; 0 for none. */
  lastIssue(subject: CertificateSubject): number {
    let last = 0;
    for (const batches of this.#byEnd.values()) {
      for (const batch of batches.values()) {
        if (batch.issuedAt <= last) continue;
        const [first] = serialsOf(batch, subject);
        if (first !== undefined) last = batch.issuedAt;
      }
    }
    return last;
  }

  /** Those of a list of serials that were issued to a caller, directly or through a forwarder. */
  findOwn(caller: string, serials: readonly bigint[]): readonly bigint[] {
    const own = new Set<bigint>();
    for (const batches of this.#byEnd.values()) {
      for (const { holder, serials: issued } of batches.values()) {
        if (holder.caller !== caller) continue;
        for (const serial of serials) if (issued.includes(serial)) own.add(serial);
      }
    }
    return [...own];
  }

  /** Forgets those that no host believes any more. */
  forget(nowSeconds: number): void {
    for (const [validBefore, batches] of this.#byEnd) {
      if (validBefore + CLOCK_SKEW_SECONDS > nowSeconds) continue;
      this.#byEnd.delete(validBefore);
      for (const { holder, serials } of batches.values()) {
        this.#charge(holder.caller, -serials.length - BATCH_COST);
      }
    }
  }

  #charge(caller: string, cost: number): void {
    this.#cost += cost;
    const costs = (this.#costs.get(caller) ?? 0) + cost;
    if (costs === 0) this.#costs.delete(caller);
    else this.#costs.set(caller, costs);
  }
}

/** The certificates of a batch that are a subject's. Names as a freeze reads them; a forwarder has all it asked for. */
function serialsOf(
  { holder, issuedAt, serials }: Omit<IssuedBatch, "serials"> & { readonly serials: Serials },
  { kind, value }: CertificateSubject,
): Iterable<bigint> {
  switch (kind) {
    case "caller":
      return isSameIdentity(holder.caller, value) || isSameIdentity(holder.peer, value) ? serials : [];
    case "end_user":
      return isSameIdentity(holder.endUser, value) ? serials : [];
    case "serial": {
      const wanted = readSerial(value);
      return wanted !== undefined && serials.includes(wanted) ? [wanted] : [];
    }
    case "key_id":
      // Most batches are of another second: their key ids need not be made.
      return value.includes(` t=${issuedAt}`) && formatKeyId({ ...holder, issuedAt }) === value
        ? serials
        : [];
    case "request":
      // The audit log has it.
      return [];
    default:
      return kind satisfies never;
  }
}

function* inParts(serials: Iterable<bigint>): Generator<readonly bigint[]> {
  let part: bigint[] = [];
  for (const serial of serials) {
    if (part.length === FOUND_AT_ONCE) {
      yield part;
      part = [];
    }
    part.push(serial);
  }
  yield part;
}

/** None of the texts can hold a line feed. */
function keyOf(holder: CertificateHolder, { issuedAt, validBefore }: IssuedFacts): string {
  const { peer, caller, endUser, host, role, elevationPrefix, pty } = holder;
  return `${issuedAt} ${validBefore} ${pty}\n${peer}\n${caller}\n${endUser}\n${host}\n${role}\n${elevationPrefix}`;
}
