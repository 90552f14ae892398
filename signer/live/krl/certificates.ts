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

export const REVOCABLE_KINDS = ["caller", "end_user", "serial", "key_id", "request", "document"] as const;

export interface CertificateSubject {
  readonly kind: (typeof REVOCABLE_KINDS)[number];
  /**
   * A CN, a user name, a serial in decimal digits, a key ID, a name of {@linkcode nameRequest}, or the SHA-256 of a
   * decision document that has been used.
   */
  readonly value: string;
}

/** Revokes the certificates that were issued until `revokedAt`, in milliseconds since the epoch. */
export interface StoredRevocation extends CertificateSubject {
  readonly revokedAt: number;
}

/**
 * The tolerance for a host whose clock is slow, in seconds: the host accepts a certificate for this time
 * after its expiry. A host whose clock is slower accepts no certificate of the signer, because a certificate
 * becomes valid 30 seconds before it is issued.
 */
export const CLOCK_SKEW_SECONDS = 60;

/** The time in seconds after which every host rejects a certificate that was issued before. */
export const REVOCATION_SECONDS: number = MAX_TTL_SECONDS + CLOCK_SKEW_SECONDS;

/** Names a request. The same ID of another caller is another request. `id` contains no space. */
export function nameRequest(caller: string, id: string): string {
  return `${id} ${caller}`;
}

/**
 * The name of a certificate that a caller reports as its own, and that another instance may have issued. The
 * log is searched for this name as for the answer of a request. No request has such an ID.
 */
export function nameSerial(caller: string, serial: bigint): string {
  return nameRequest(caller, `serial=${serial}`);
}

/** The suffix that a control plane with several signers appends to a broker's request ID. */
const FORWARDERS_END = /\.[0-9a-f]{12}$/;

export function namesOfRequest(caller: string, id: string): readonly string[] {
  return [...new Set([id, id.replace(FORWARDERS_END, "")])].map((each) => nameRequest(caller, each));
}

/** The serial of decimal digits; `undefined` if no certificate can have it, or no revocation list can hold it. */
export function readSerial(text: string): bigint | undefined {
  const serial = /^\d{1,20}$/.test(text) ? BigInt(text) : 0n;
  return serial > 0n && serial < 2n ** 64n ? serial : undefined;
}

/** The content of a certificate's key ID without the time, and the CN of the connection. */
export interface CertificateHolder extends Required<Omit<KeyIdParts, "issuedAt">> {
  readonly peer: string;
}

/** Certificates of one holder, second and lifetime. Times are seconds since the epoch. */
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

/** The maximum size of the remembered certificates, in units of 8 bytes. One serial is one unit. */
const LIMITS = { total: 4_000_000, perCaller: 2_000_000 };
/** The memory that a batch needs in addition to its serials, in the same units. */
const BATCH_COST = 64;
/**
 * The size of one part, which takes less than a millisecond. Moving the larger data costs the same for few
 * serials as for many.
 */
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

  /** Searches in place, because allocating bigints would take a hundred times as long. */
  includes(serial: bigint): boolean {
    return this.#values.subarray(0, this.#length).includes(serial);
  }

  /** Iterates over the serials. Serials may be added during the iteration. */
  [Symbol.iterator](): IterableIterator<bigint> {
    return this.#values.subarray(0, this.#length).values();
  }
}

type OpenBatch = Omit<IssuedBatch, "serials"> & { readonly serials: Serials };

export type OpenBatches = Map<string, OpenBatch>;

/** Adds a certificate to the batch of its holder and second. Returns whether it is the first of the batch. */
export function addToBatches(batches: OpenBatches, holder: CertificateHolder, facts: IssuedFacts): boolean {
  const { serial, issuedAt, validBefore } = facts;
  const { peer, caller, endUser, host, role, elevationPrefix, pty } = holder;
  // A line feed separates the texts, because none of them can contain one.
  const key =
    `${issuedAt} ${validBefore} ${pty}\n${peer}\n${caller}\n${endUser}\n${host}\n${role}\n${elevationPrefix}`;
  const create = () => ({ holder, issuedAt, validBefore, serials: new Serials() });
  const batch = batches.getOrInsertComputed(key, create);
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

  /** Whether another certificate of a caller can be remembered: without that, it cannot be revoked. */
  hasRoomFor(caller: string): boolean {
    const { total, perCaller } = this.#limits;
    return this.#cost + BATCH_COST < total && (this.#costs.get(caller) ?? 0) + BATCH_COST < perCaller;
  }

  add(holder: CertificateHolder, facts: IssuedFacts): void {
    const batches = this.#byEnd.getOrInsertComputed(facts.validBefore, () => new Map());
    this.#charge(holder.caller, addToBatches(batches, holder, facts) ? 1 + BATCH_COST : 1);
  }

  addAll(batches: readonly IssuedBatch[]): void {
    for (const { holder, serials, ...times } of batches) {
      for (const serial of serials) this.add(holder, { serial, ...times });
    }
  }

  /**
   * The certificates of a subject that were issued until a second, in parts. Certificates may be added during
   * the iteration. A part can be empty, because certificates of other subjects are searched as well.
   */
  *find(subject: CertificateSubject, issuedUntil: number): Generator<FoundBatch> {
    for (const batch of this.#batches()) {
      if (batch.issuedAt > issuedUntil) continue;
      for (const serials of inParts(serialsOf(batch, subject))) {
        yield { serials, validBefore: batch.validBefore };
      }
    }
  }

  /** The time when the last certificate of a subject was issued, in seconds since the epoch; 0: there is none. */
  lastIssue(subject: CertificateSubject): number {
    let last = 0;
    for (const batch of this.#batches()) {
      const [first] = batch.issuedAt > last ? serialsOf(batch, subject) : [];
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

/**
 * The certificates of a batch that belong to a subject. Names are compared as for a freeze. A forwarder is a
 * subject of all certificates that it requested.
 */
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
      // Compare the second first: most batches belong to another second, so their key IDs need not be
      // formatted.
      return value.includes(` t=${issuedAt}`) && formatKeyId({ ...holder, issuedAt }) === value
        ? serials
        : [];
    case "request":
    case "document":
      // Batches have no request IDs. The answers of requests are in the audit log.
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
 * Revoked serials and key IDs, each kept until every host rejects certificates with it. Also abandoned
 * requests, which must produce no certificate. Such requests have no serial, so the list for hosts cannot
 * contain them.
 */
export class RevokedNames {
  readonly #serials = new SerialSet();
  readonly #keyIds = new Map<string, number>();
  readonly #requests = new Map<string, number>();
  readonly #documents = new Map<string, number>();

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

  /** Whether one of the decision documents has been used. */
  hasDocument(...sha256: readonly string[]): boolean {
    return sha256.some((each) => this.#documents.has(each));
  }

  /** The number of abandoned requests of a caller. */
  requestsOf(caller: string): number {
    const isOf = (name: string) => name.slice(name.indexOf(" ") + 1) === caller;
    return this.#requests.keys().reduce((sum, name) => isOf(name) ? sum + 1 : sum, 0);
  }

  /**
   * Adds the certificates of a revocation to the list. Returns the number of known certificates that were not
   * listed before. Certificates may be issued between the steps, but the list must not be used otherwise.
   */
  *add({ kind, value, revokedAt }: StoredRevocation, among: IssuedCertificates): Steps<number> {
    const until = Math.floor(revokedAt / 1000);
    if (kind === "request" || kind === "document") {
      (kind === "request" ? this.#requests : this.#documents).set(value, until + REVOCATION_SECONDS);
      return 0;
    }
    // Also list a key ID that this signer does not know, because an admin who names a key ID has a reason.
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

  /**
   * Removes names whose retention ended before this second since the epoch. Returns the number of removed
   * names that the list for hosts contained.
   */
  forget(nowSeconds: number): number {
    const before = this.size;
    this.#serials.forget(nowSeconds);
    for (const names of [this.#keyIds, this.#requests, this.#documents]) {
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

  /**
   * Moves the serials of the map into the set. Returns the number of new serials. The serial 0 is dropped,
   * because no list can contain it.
   */
  #take(serials: Map<bigint, number>): number {
    serials.delete(0n);
    const added = serials.size === 0 ? 0 : this.#serials.add(serials);
    serials.clear();
    return added;
  }
}

const DOMAIN = new TextEncoder().encode(`${KRL_NAMESPACE}\0`);

/**
 * One version of the revocation list in the format of `RevokedKeys` (sshd_config(5)). Each signature is
 * created once.
 */
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
    return this.#signatures.getOrInsertComputed(key, () => ({}));
  }
}
