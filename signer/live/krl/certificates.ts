/** Certificates that are still valid, which of them are revoked, and until when they must be listed. */
import type { Steps } from "@gateway/shared/clock";
import type { EnvelopeKey } from "@gateway/shared/envelope";
import { MAX_TTL_SECONDS } from "@gateway/shared/policy";
import {
  armorSshsig,
  encodeKrl,
  formatKeyId,
  type KeyIdParts,
  SerialSet,
  signSshsig,
} from "@gateway/shared/ssh";
import { concatBytes, isSameIdentity } from "@gateway/shared/text";
import { KRL_NAMESPACE } from "@gateway/shared/wire";

export const REVOCABLE_KINDS = ["caller", "end_user", "serial", "key_id", "request"] as const;

export interface CertificateSubject {
  readonly kind: (typeof REVOCABLE_KINDS)[number];
  /** A CN, a user name, a serial in decimal digits, a key id, a request as {@linkcode nameRequest} names it. */
  readonly value: string;
}

/** Revokes the certificates that were issued until `revokedAt`, in milliseconds since the epoch. */
export interface StoredRevocation extends CertificateSubject {
  readonly revokedAt: number;
}

/**
 * A host whose clock is behind accepts a certificate for so much longer, in seconds. A host that is further behind accepts
 * none of the signer's certificates, because they begin 30 seconds before they are issued.
 */
export const CLOCK_SKEW_SECONDS = 60;

/** After so many seconds no host accepts any certificate that was issued before. */
export const REVOCATION_SECONDS: number = MAX_TTL_SECONDS + CLOCK_SKEW_SECONDS;

/** A caller's request. An id that another caller names is another request; `id` has no space. */
export function nameRequest(caller: string, id: string): string {
  return `${id} ${caller}`;
}

/**
 * A certificate that a caller names as its own, and that another instance may have issued. It is searched for like the
 * answer to a request; no request has such an id.
 */
export function nameSerial(caller: string, serial: bigint): string {
  return nameRequest(caller, `serial=${serial}`);
}

/** A control plane with several signers appends this to the id that a broker gave a request. */
const FORWARDERS_END = /\.[0-9a-f]{12}$/;

export function namesOfRequest(caller: string, id: string): readonly string[] {
  const brokers = id.replace(FORWARDERS_END, "");
  return brokers === id ? [nameRequest(caller, id)] : [nameRequest(caller, id), nameRequest(caller, brokers)];
}

/** The serial of decimal digits; `undefined` if no certificate can have it, or no revocation list can hold it. */
export function readSerial(text: string): bigint | undefined {
  const serial = /^\d{1,20}$/.test(text) ? BigInt(text) : 0n;
  return serial > 0n && serial < 2n ** 64n ? serial : undefined;
}

/** All that the key id of a certificate has but the time, and the CN of the connection. */
export interface CertificateHolder extends Required<Omit<KeyIdParts, "issuedAt">> {
  readonly peer: string;
}

/** Certificates of one holder that were issued in the same second for as long. Times are seconds since the epoch. */
export interface IssuedBatch {
  readonly holder: CertificateHolder;
  readonly issuedAt: number;
  readonly validBefore: number;
  readonly serials: readonly bigint[];
}

export interface IssuedFacts extends Pick<IssuedBatch, "issuedAt" | "validBefore"> {
  readonly serial: bigint;
}

export type FoundBatch = Pick<IssuedBatch, "serials" | "validBefore">;

/** How much is remembered at a time, in units of 8 bytes: a serial is one. */
const LIMITS = { total: 4_000_000, perCaller: 2_000_000 };
/** A batch needs as much memory as so many serials. */
const BATCH_COST = 64;
/** A part of so many is handled in less than a millisecond. Moving larger data costs the same for a few as for many. */
const AT_ONCE = 1000;

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

  /** Compares in place: allocating bigints would take a hundred times as long. */
  includes(serial: bigint): boolean {
    return this.#values.subarray(0, this.#length).includes(serial);
  }

  /** Others may be added meanwhile. */
  [Symbol.iterator](): IterableIterator<bigint> {
    return this.#values.subarray(0, this.#length).values();
  }
}

type OpenBatch = Omit<IssuedBatch, "serials"> & { readonly serials: Serials };

export type OpenBatches = Map<string, OpenBatch>;

/** Adds a certificate to the others of its kind; returns whether it is the first one. */
export function addToBatches(batches: OpenBatches, holder: CertificateHolder, facts: IssuedFacts): boolean {
  const { serial, issuedAt, validBefore } = facts;
  const { peer, caller, endUser, host, role, elevationPrefix, pty } = holder;
  // None of the texts can hold a line feed.
  const key =
    `${issuedAt} ${validBefore} ${pty}\n${peer}\n${caller}\n${endUser}\n${host}\n${role}\n${elevationPrefix}`;
  const batch = batches.get(key) ?? { holder, issuedAt, validBefore, serials: new Serials() };
  batches.set(key, batch);
  batch.serials.push(serial);
  return batch.serials.length === 1;
}

export class IssuedCertificates {
  readonly #limits: typeof LIMITS;
  readonly #byEnd = new Map<number, OpenBatches>();
  readonly #costs = new Map<string, number>();
  #cost = 0;

  constructor(limits = LIMITS) {
    this.#limits = limits;
  }

  /** Whether one more can be remembered; a certificate that is not remembered could not be revoked. */
  hasRoomFor(caller: string): boolean {
    const { total, perCaller } = this.#limits;
    return this.#cost + BATCH_COST < total && (this.#costs.get(caller) ?? 0) + BATCH_COST < perCaller;
  }

  add(holder: CertificateHolder, facts: IssuedFacts): void {
    const batches = this.#byEnd.get(facts.validBefore) ?? new Map();
    this.#byEnd.set(facts.validBefore, batches);
    this.#charge(holder.caller, addToBatches(batches, holder, facts) ? 1 + BATCH_COST : 1);
  }

  addAll(batches: readonly IssuedBatch[]): void {
    for (const { holder, serials, ...times } of batches) {
      for (const serial of serials) this.add(holder, { serial, ...times });
    }
  }

  /**
   * The certificates of a subject that were issued at a second or before, in parts; others may be added meanwhile. Parts can
   * be empty, because those of other subjects are searched too.
   */
  *find(subject: CertificateSubject, issuedUntil: number): Generator<FoundBatch> {
    for (const batch of this.#batches()) {
      if (batch.issuedAt > issuedUntil) continue;
      for (const serials of inParts(serialsOf(batch, subject))) {
        yield { serials, validBefore: batch.validBefore };
      }
    }
  }

  /** When the last certificate of a subject was issued, in seconds since the epoch; 0 for none. */
  lastIssue(subject: CertificateSubject): number {
    let last = 0;
    for (const batch of this.#batches()) {
      if (batch.issuedAt <= last) continue;
      const [first] = serialsOf(batch, subject);
      if (first !== undefined) last = batch.issuedAt;
    }
    return last;
  }

  /** The serials of a list that were issued to a caller, directly or through a forwarder. */
  findOwn(caller: string, serials: readonly bigint[]): readonly bigint[] {
    const own = new Set<bigint>();
    for (const { holder, serials: issued } of this.#batches()) {
      if (holder.caller !== caller) continue;
      for (const serial of serials) if (issued.includes(serial)) own.add(serial);
    }
    return [...own];
  }

  forget(nowSeconds: number): void {
    for (const [validBefore, batches] of this.#byEnd) {
      if (validBefore + CLOCK_SKEW_SECONDS > nowSeconds) continue;
      this.#byEnd.delete(validBefore);
      for (const { holder, serials } of batches.values()) {
        this.#charge(holder.caller, -serials.length - BATCH_COST);
      }
    }
  }

  *#batches(): Generator<OpenBatch> {
    for (const batches of this.#byEnd.values()) yield* batches.values();
  }

  #charge(caller: string, cost: number): void {
    this.#cost += cost;
    const costs = (this.#costs.get(caller) ?? 0) + cost;
    if (costs === 0) this.#costs.delete(caller);
    else this.#costs.set(caller, costs);
  }
}

/** The certificates of a batch that are a subject's. Names compare as for a freeze; a forwarder has all it asked for. */
function serialsOf(
  { holder, issuedAt, serials }: OpenBatch,
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
      // The audit log has the certificate.
      return [];
    default:
      return kind satisfies never;
  }
}

function* inParts(serials: Iterable<bigint>): Generator<readonly bigint[]> {
  let part: bigint[] = [];
  for (const serial of serials) {
    if (part.length === AT_ONCE) {
      yield part;
      part = [];
    }
    part.push(serial);
  }
  yield part;
}

export interface CertificateNames {
  readonly serial: bigint;
  readonly keyId?: KeyIdParts;
}

/**
 * The revoked serials and key IDs, each until no host accepts a certificate that has it. Also the abandoned requests,
 * which must produce no certificate. They have no serial, so a host's list cannot contain them.
 */
export class RevokedNames {
  readonly #serials = new SerialSet();
  readonly #keyIds = new Map<string, number>();
  readonly #requests = new Map<string, number>();

  get size(): number {
    return this.#serials.size + this.#keyIds.size;
  }

  has({ serial, keyId }: CertificateNames): boolean {
    if (this.#serials.has(serial)) return true;
    return keyId !== undefined && this.#keyIds.size > 0 && this.#keyIds.has(formatKeyId(keyId));
  }

  hasRequest(...names: readonly string[]): boolean {
    return names.some((name) => this.#requests.has(name));
  }

  /** How many requests of a caller are given up. */
  requestsOf(caller: string): number {
    const isOf = (name: string) => name.slice(name.indexOf(" ") + 1) === caller;
    return this.#requests.keys().reduce((sum, name) => isOf(name) ? sum + 1 : sum, 0);
  }

  /**
   * Lists the certificates of a revocation; returns how many of those that are known were not listed before. Certificates may
   * be issued between the steps; do nothing else with the list then.
   */
  *add({ kind, value, revokedAt }: StoredRevocation, among: IssuedCertificates): Steps<number> {
    const until = Math.floor(revokedAt / 1000);
    if (kind === "request") {
      this.#requests.set(value, until + REVOCATION_SECONDS);
      return 0;
    }
    // Also if this signer does not know the key id: an admin who names one knows why.
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

  /** Forgets names that were to be listed until a second since the epoch; returns how many of a list for hosts those are. */
  forget(nowSeconds: number): number {
    const before = this.size;
    this.#serials.forget(nowSeconds);
    for (const names of [this.#keyIds, this.#requests]) {
      for (const [name, until] of names) if (until <= nowSeconds) names.delete(name);
    }
    return before - this.size;
  }

  encode(version: number, nowMs: number): Uint8Array<ArrayBuffer> {
    return encodeKrl({
      version: BigInt(version),
      generatedAt: Math.floor(nowMs / 1000),
      comment: "gateway",
      serials: this.#serials,
      keyIds: this.#keyIds.keys(),
    });
  }

  /** Empties the map; returns how many were not listed before. No list can hold a 0. */
  #take(serials: Map<bigint, number>): number {
    serials.delete(0n);
    const added = serials.size === 0 ? 0 : this.#serials.add(serials);
    serials.clear();
    return added;
  }
}

const DOMAIN = new TextEncoder().encode(`${KRL_NAMESPACE}\0`);

/** One version of the revocation list as `RevokedKeys` of sshd_config(5) reads it; each signature is made once. */
export class PublishedList {
  readonly version: number;
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly #signatures = new WeakMap<EnvelopeKey, { detached?: string; armored?: string }>();

  constructor(version: number, bytes: Uint8Array<ArrayBuffer>) {
    this.version = version;
    this.bytes = bytes;
  }

  /** Base64 of the Ed25519 signature over the domain, a NUL, and the list. */
  detachedSignature(key: EnvelopeKey): string {
    return this.#by(key).detached ??= key.sign(concatBytes([DOMAIN, this.bytes])).toBase64();
  }

  armoredSignature(key: EnvelopeKey): string {
    return this.#by(key).armored ??= armorSshsig(signSshsig(key.ssh, KRL_NAMESPACE, this.bytes));
  }

  #by(key: EnvelopeKey): { detached?: string; armored?: string } {
    const signatures = this.#signatures.get(key) ?? {};
    this.#signatures.set(key, signatures);
    return signatures;
  }
}
