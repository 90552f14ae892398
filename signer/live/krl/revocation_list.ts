import { ChangeLock } from "@gateway/shared/state";
import { type Clock, finish, finishInSlices, within } from "@gateway/shared/clock";
import type { ServiceLogger } from "@gateway/shared/service";
import type { FreezeSet } from "../freezes.ts";
import type { SharedContent } from "../state/postgres.ts";
import type { StateStore } from "../state/store.ts";
import {
  AnswerSearch,
  type AnswerSearchOptions,
  type RecordedAnswer,
  type RecordedCertificate,
  toIssued,
  withoutKnown,
} from "./recorded.ts";
import {
  addToBatches,
  type CertificateHolder,
  type IssuedBatch,
  IssuedCertificates,
  type IssuedFacts,
  type OpenBatches,
} from "./issued.ts";
import { type CertificateNames, ListedNames } from "./listed.ts";
import {
  type CertificateSubject,
  CLOCK_SKEW_SECONDS,
  type KeptRevocation,
  nameRequest,
  namesOfRequest,
  nextVersion,
  requestsOf,
  REVOCATION_SECONDS,
} from "./revocations.ts";
import type { EnvelopeKey } from "@gateway/shared/envelope";
import { concatBytes } from "@gateway/shared/text";
import { armorSshsig, signSshsig } from "@gateway/shared/ssh";
import { KRL_NAMESPACE } from "@gateway/shared/wire";

/** What a {@linkcode RevocationList} works with. */
interface RevocationListOptions extends Pick<AnswerSearchOptions, "findAnswers"> {
  readonly store: StateStore;
  readonly clock: Clock;
  readonly logger: ServiceLogger;
  /** Called for every change that the store could not make (`statedb_errors_total`). */
  readonly onStoreError: () => void;
  /** The certificates that the audit log tells of, back to a time in milliseconds since the epoch; the last first. */
  readonly readRecords: (since: number) => AsyncIterable<RecordedCertificate>;
  /** Called with what came of requests whose answers nobody has, before it is revoked. */
  readonly onLost: (answers: readonly RecordedAnswer[]) => Promise<void>;
  /** Who may ask for certificates for others. */
  readonly forwarders: Iterable<string>;
}

/** What the audit log has of certificates and tokens. */
export type LogReader = Pick<RevocationListOptions, "readRecords" | "findAnswers">;

/** What other instances have issued and revoked. */
type SharedRevocations = Pick<SharedContent, "certificates"> & {
  /** Absent where it is as it was taken over last. */
  readonly state?: { readonly revocations: readonly KeptRevocation[]; readonly krlVersion: number };
};

export interface RevocationOutcome {
  /** How many certificates that are still valid are listed now and were not before. */
  readonly revoked: number;
  readonly version: number;
  /** False: in force, but the store could not take it, and a restart may undo it. */
  readonly persisted: boolean;
}

/** How long a certificate may wait to be stored: what a killed process forgets. */
const STORE_DELAY_MS = 250;
/** The most requests that one caller may have given up, of those that are remembered. */
const MAX_GIVEN_UP = 10_000;
/** How long a reader waits for news. */
const POLL_MS = 25_000;
/** Who has fetched a list asks for its signature next, and a new version may come between. */
const KEPT_VERSIONS = 4;

/**
 * The certificates that are still valid, which of them are revoked, and the list of those for sshd. Certificates are
 * remembered without a wait; what is revoked is stored before it is published.
 */
export class RevocationList {
  readonly #options: RevocationListOptions;
  readonly #issued = new IssuedCertificates();
  readonly #lock = new ChangeLock();
  readonly #waiting = new Set<() => void>();
  readonly #closing = new AbortController();
  /** Issued, and not in the store yet. */
  #unstored: OpenBatches = new Map();
  #storing: Promise<void> | undefined;
  /** In force, and not in the store. */
  #unstoredRevocations: readonly KeptRevocation[] = [];
  #isStoreBroken = false;
  readonly #listed = new ListedNames();
  /** It has more than the list in force: the store could not take the next one's version yet. */
  #isUnpublished = false;
  /** What others have revoked, and was looked for among the certificates. */
  #takenOver: ReadonlyMap<string, KeptRevocation> = new Map();
  readonly #search: AnswerSearch;
  #versions: readonly [PublishedList, ...PublishedList[]];

  private constructor(options: RevocationListOptions, version: number) {
    this.#options = options;
    this.#search = new AnswerSearch({
      clock: options.clock,
      findAnswers: options.findAnswers,
      isGivenUp: (request) => this.#listed.hasRequest(() => [request]),
      revoke: (answers) => this.#revokeAnswers(answers),
    });
    this.#versions = [this.#made(version)];
  }

  /**
   * Loads what the store holds; what is frozen is revoked, also where the store had only its freeze.
   *
   * @throws {AppError} `invalid_config` when a revocation or a certificate can't be read
   */
  static async open(options: RevocationListOptions, freezes: FreezeSet): Promise<RevocationList> {
    const { store, clock } = options;
    const now = clock.now();
    const list = new RevocationList(options, nextVersion(await store.loadKrlVersion(), now));
    const stored = await store.loadCertificates(now);
    for (const { holder, issuedAt, validBefore, serials } of stored) {
      for (const serial of serials) list.#issued.add(holder, { serial, issuedAt, validBefore });
    }
    await list.#addRecorded(stored, now);
    const revocations = await store.loadRevocations(now - REVOCATION_SECONDS * 1000);
    for (const revocation of revocations) finish(list.#listed.add(revocation, list.#issued));
    const found: KeptRevocation[] = [];
    for (const { kind, value, frozenAt } of Object.values(freezes).flatMap((of) => [...of.values()])) {
      if (kind === "session_id") continue;
      // Of a caller or user also what is younger than the freeze: there should be none.
      const revokedAt = kind === "serial" ? frozenAt : now;
      if (revokedAt <= now - REVOCATION_SECONDS * 1000) continue;
      const before = list.#listed.size;
      finish(list.#listed.add({ kind, value, revokedAt }, list.#issued));
      if (list.#listed.size > before) found.push({ kind, value, revokedAt });
    }
    // Others that share the store know by it what they will hear of later.
    const version = await list.#store(found, list.current.version) ?? list.current.version;
    list.#versions = [list.#made(version)];
    list.#search.keep(requestsOf(revocations));
    return list;
  }

  get current(): PublishedList {
    return this.#versions[0];
  }

  /** A version that was in force a moment ago, or is. */
  version(version: number): PublishedList | undefined {
    return this.#versions.find((list) => list.version === version);
  }

  /** Whether another certificate of a caller can be remembered; one that is not could not be revoked. */
  hasRoomFor(caller: string): boolean {
    return this.#issued.hasRoomFor(caller);
  }

  /** Remembers a certificate. Call it before the certificate is released, and before the last look at the freezes. */
  add(holder: CertificateHolder, facts: IssuedFacts): void {
    this.#issued.add(holder, facts);
    if (!this.#options.store.survivesRestart) return;
    addToBatches(this.#unstored, holder, facts);
    this.#storing ??= this.#storeSoon();
  }

  /**
   * Takes over what other instances have issued and revoked. Where others have changed what is decided by, it stores
   * what this one has issued: whoever revokes finds it then.
   *
   * @throws {AppError} when the store can't take what was issued
   */
  takeOver({ certificates, state }: SharedRevocations): Promise<void> {
    return this.#lock.run(async () => {
      if (state !== undefined) await this.#storeCertificates();
      else if (certificates.length === 0) return;
      const added = new IssuedCertificates();
      for (const { holder, serials, ...times } of certificates) {
        for (const serial of serials) {
          this.#issued.add(holder, { serial, ...times });
          added.add(holder, { serial, ...times });
        }
      }
      const before = this.#listed.size;
      const lost = requestsOf(state?.revocations ?? []).filter((name) =>
        !this.#listed.hasRequest(() => [name])
      );
      // What was looked for before can be only among those that are new.
      const taken = new Map<string, KeptRevocation>();
      for (const revocation of state?.revocations ?? this.#takenOver.values()) {
        const key = `${revocation.kind} ${revocation.value} ${revocation.revokedAt}`;
        await this.#list(revocation, this.#takenOver.has(key) ? added : this.#issued);
        taken.set(key, revocation);
      }
      this.#takenOver = taken;
      // They are no news when this is done again after a failure.
      this.#search.keep(lost);
      this.#isUnpublished ||= this.#listed.size > before;
      const { store, clock } = this.#options;
      // A list of other content needs another version than any that another instance has made.
      const krlVersion = state?.krlVersion ?? this.current.version;
      const version = this.#isUnpublished && krlVersion <= this.current.version
        ? await store.putRevocations([], nextVersion(this.current.version, clock.now()))
        : krlVersion;
      if (version > this.current.version) this.#publish(version);
      // Not waited for: what reads the log holds up nothing that is decided by.
      void this.seekGivenUp();
    });
  }

  /**
   * Lets nothing come of requests whose answers nobody has: what was signed for them is revoked, here or at the instance
   * that has it in its log, and what is still to be signed does not leave.
   *
   * @throws what it is when the log can't be read
   */
  async giveUp(caller: string, requestIds: readonly string[]): Promise<RevocationOutcome> {
    const names = requestIds.map((id) => nameRequest(caller, id));
    const outcome = await this.revoke(names.map((value) => ({ kind: "request", value })));
    this.#search.keep(names);
    return { ...outcome, revoked: await this.#search.search(), version: this.current.version };
  }

  /** Whether a caller may give up so many requests more. */
  mayGiveUp(caller: string, count: number): boolean {
    return this.#listed.requestsOf(caller) + count <= MAX_GIVEN_UP;
  }

  /** Looks for what was given up and is not found yet: before the start, elsewhere, or while the log could not be read. */
  async seekGivenUp(): Promise<void> {
    try {
      await this.#search.search();
    } catch (error) {
      this.#options.logger.error("what came of requests whose answers were lost is not revoked yet", {
        error,
      });
    }
  }

  /** Whether nobody has the answer to a request any more. */
  isGivenUp(caller: string, requestId: string | undefined): boolean {
    return requestId !== undefined && this.#listed.hasRequest(() => namesOfRequest(caller, requestId));
  }

  /** Those of a list of serials that were issued to a caller and are still valid. */
  findOwn(caller: string, serials: readonly bigint[]): readonly bigint[] {
    return this.#issued.findOwn(caller, serials);
  }

  /** Whether it is revoked by one of its names. */
  isListed(names: CertificateNames): boolean {
    return this.#listed.has(names);
  }

  /** Revokes the certificates of subjects; once it resolves, they are listed. It can't be undone. */
  revoke(subjects: readonly CertificateSubject[]): Promise<RevocationOutcome> {
    return this.#lock.run(async () => {
      const now = this.#options.clock.now();
      const before = this.#listed.size;
      const kept = subjects.map(({ kind, value }) => {
        // What is known is revoked, also what was issued by a clock that was ahead of this one.
        const revokedAt = Math.max(now, this.#issued.lastIssue({ kind, value }) * 1000);
        return { kind, value, revokedAt };
      });
      let revoked = 0;
      for (const revocation of kept) revoked += await this.#list(revocation);
      const next = this.#listed.size > before ? nextVersion(this.current.version, now) : undefined;
      // Also where none is known: one that was issued before, elsewhere, may show up.
      const version = await this.#store(kept, next);
      if (next !== undefined) this.#publish(version ?? next);
      return { revoked, version: this.current.version, persisted: version !== undefined };
    });
  }

  /** The list when it is newer than a version, at once or within 25 s; `undefined` when there is no news. */
  async newerThan(version: number, signal?: AbortSignal): Promise<PublishedList | undefined> {
    if (this.current.version > version) return this.current;
    if (this.#closing.signal.aborted) return undefined;
    const news = Promise.withResolvers<void>();
    this.#waiting.add(news.resolve);
    try {
      await within({ clock: this.#options.clock, ms: POLL_MS, signal }, () => news.promise);
    } catch {
      return undefined;
    } finally {
      this.#waiting.delete(news.resolve);
    }
    return this.current.version > version ? this.current : undefined;
  }

  /** Forgets what no host believes any more, and stores again what could not be stored; for a periodic call. */
  async sweep(): Promise<void> {
    await this.seekGivenUp();
    await this.#lock.run(async () => {
      const now = this.#options.clock.now();
      const seconds = Math.floor(now / 1000);
      this.#issued.forget(seconds);
      const dropped = this.#listed.forget(seconds);
      if (dropped === 0 && this.#unstoredRevocations.length === 0) return;
      const next = nextVersion(this.current.version, now);
      const version = await this.#store([], dropped === 0 ? undefined : next);
      if (dropped > 0) this.#publish(version ?? next);
    });
  }

  /** Ends every wait for news: there is nothing more to come. */
  release(): void {
    this.#closing.abort();
    for (const tell of this.#waiting) tell();
  }

  /** Stores what is not stored yet. The store stays open. */
  async close(): Promise<void> {
    this.release();
    await this.#search.settled();
    await this.#lock.run(() => this.#storeCertificates().catch(this.#notStored));
  }

  /** Adds what was issued and not stored any more before the process ended: the audit log has it. */
  async #addRecorded(stored: readonly IssuedBatch[], now: number): Promise<void> {
    const { readRecords, forwarders } = this.#options;
    const known = new Set(stored.flatMap(({ serials }) => serials));
    for await (const certificate of withoutKnown(readRecords(now - REVOCATION_SECONDS * 1000), known)) {
      const { holders, facts } = toIssued(certificate, forwarders);
      for (const holder of holders) this.add(holder, facts);
    }
  }

  async #revokeAnswers(answers: readonly RecordedAnswer[]): Promise<number> {
    await this.#options.onLost(answers);
    const subjects = answers.map(({ serial }) => ({ kind: "serial" as const, value: serial.toString() }));
    return (await this.revoke(subjects)).revoked;
  }

  /** Requests are answered meanwhile, and the list in force stays as it is. */
  #list(revocation: KeptRevocation, among = this.#issued): Promise<number> {
    return finishInSlices(this.#listed.add(revocation, among), this.#options.clock);
  }

  #publish(version: number): void {
    this.#isUnpublished = false;
    this.#versions = [this.#made(version), ...this.#versions.slice(0, KEPT_VERSIONS - 1)];
    for (const tell of this.#waiting) tell();
  }

  #made(version: number): PublishedList {
    return new PublishedList(version, this.#listed.encode(version, this.#options.clock.now()));
  }

  async #storeSoon(): Promise<void> {
    const { clock } = this.#options;
    // close() stores the rest.
    if (!await clock.sleep(STORE_DELAY_MS, this.#closing.signal).then(() => true, () => false)) return;
    this.#storing = undefined;
    await this.#lock.run(() => this.#storeCertificates().catch(this.#notStored));
  }

  /** @throws {AppError} when the store can't take them: they wait for the next time */
  async #storeCertificates(): Promise<void> {
    const batches = this.#unstored;
    if (batches.size === 0) return;
    this.#unstored = new Map();
    try {
      await this.#options.store.addCertificates(
        [...batches.values()].map((batch) => ({ ...batch, serials: [...batch.serials] })),
      );
    } catch (error) {
      const now = Math.floor(this.#options.clock.now() / 1000);
      for (const { holder, serials, ...times } of batches.values()) {
        if (times.validBefore + CLOCK_SKEW_SECONDS <= now) continue;
        for (const serial of serials) addToBatches(this.#unstored, holder, { serial, ...times });
      }
      throw error;
    }
  }

  /**
   * Stores revocations, those that wait for it too, and before them the certificates that they are of.
   *
   * @param next what the version is to be at least; `undefined`: it stays
   * @returns the version that the store has then; `undefined` where it could not take them
   */
  async #store(revocations: readonly KeptRevocation[], next?: number): Promise<number | undefined> {
    const all = [...this.#unstoredRevocations, ...revocations];
    try {
      await this.#storeCertificates();
      const version = await this.#options.store.putRevocations(all, next);
      this.#unstoredRevocations = [];
      this.#isStoreBroken = false;
      return version;
    } catch (error) {
      this.#unstoredRevocations = all;
      this.#notStored(error);
      return undefined;
    }
  }

  readonly #notStored = (error: unknown): void => {
    this.#options.onStoreError();
    if (this.#isStoreBroken) return;
    this.#isStoreBroken = true;
    this.#options.logger.error("what was issued or revoked is in force, but not stored", { error });
  };
}

const DOMAIN = new TextEncoder().encode(`${KRL_NAMESPACE}\0`);

/** One version of the revocation list, and its signatures, each made when it is first asked for. */
export class PublishedList {
  readonly version: number;
  /** As `RevokedKeys` of sshd_config(5) reads it. */
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly #detached = new WeakMap<EnvelopeKey, string>();
  readonly #armored = new WeakMap<EnvelopeKey, string>();

  constructor(version: number, bytes: Uint8Array<ArrayBuffer>) {
    this.version = version;
    this.bytes = bytes;
  }

  /** Base64 of the Ed25519 signature over the domain, a NUL, and the list. */
  detachedSignature(key: EnvelopeKey): string {
    return once(this.#detached, key, () => key.sign(concatBytes([DOMAIN, this.bytes])).toBase64());
  }

  armoredSignature(key: EnvelopeKey): string {
    return once(this.#armored, key, () => armorSshsig(signSshsig(key.ssh, KRL_NAMESPACE, this.bytes)));
  }
}

function once(made: WeakMap<EnvelopeKey, string>, key: EnvelopeKey, make: () => string): string {
  const known = made.get(key);
  if (known !== undefined) return known;
  const text = make();
  made.set(key, text);
  return text;
}
