import { type Clock, finish, finishInSlices, within } from "@gateway/shared/clock";
import type { ServiceLogger } from "@gateway/shared/service";
import { Durable } from "@gateway/shared/state";
import type { FreezeSet } from "../freezes.ts";
import type { StateStore } from "../state/store.ts";
import { LostAnswers, type LostAnswersOptions } from "./lost_answers.ts";
import { type RecordedCertificate, toIssued, withoutKnown } from "./recorded.ts";
import {
  addToBatches,
  type CertificateHolder,
  type CertificateSubject,
  CLOCK_SKEW_SECONDS,
  type IssuedBatch,
  IssuedCertificates,
  type IssuedFacts,
  nameRequest,
  namesOfRequest,
  type OpenBatches,
  PublishedList,
  REVOCATION_SECONDS,
  RevokedNames,
  type StoredRevocation,
} from "./certificates.ts";

interface RevocationListOptions extends Pick<LostAnswersOptions, "findAnswers" | "onLost"> {
  readonly store: StateStore;
  readonly clock: Clock;
  readonly logger: ServiceLogger;
  readonly onStoreError: () => void;
  /** Reads the certificates in the audit log, newest first, back to a time in ms since the epoch. */
  readonly readRecords: (since: number) => AsyncIterable<RecordedCertificate>;
  readonly forwarders: Iterable<string>;
}

export type LogReader = Pick<RevocationListOptions, "readRecords" | "findAnswers">;

export interface RevocationOutcome {
  /** The number of valid certificates that this revocation added to the list. */
  readonly revoked: number;
  readonly version: number;
  /** False: the revocation is in force, but the store could not save it, so a restart may undo it. */
  readonly persisted: boolean;
}

/** Maximum delay before a certificate is stored. Until then, only the audit log contains it. */
const STORE_DELAY_MS = 250;
const MAX_GIVEN_UP = 10_000;
const POLL_MS = 25_000;
/** Kept versions: a new one may be published before a reader fetches the signature of its list. */
const KEPT_VERSIONS = 4;

/**
 * The valid certificates, the revoked ones among them, and the revocation list for sshd. A certificate is
 * remembered without a wait for the store. A revocation is stored before it is published.
 */
export class RevocationList {
  readonly #options: RevocationListOptions;
  readonly issued: IssuedCertificates = new IssuedCertificates();
  readonly listed: RevokedNames = new RevokedNames();
  /** The versions of the list, the newest first; revocations are in force before they are stored. */
  readonly #durable: Durable<readonly [PublishedList, ...PublishedList[]], StoredRevocation>;
  readonly #waiting = new Set<() => void>();
  readonly #closing = new AbortController();
  #unstored: OpenBatches = new Map();
  #storing: Promise<void> | undefined;
  #isStoreBroken = false;
  /** Names were added but not published, because the store could not save the next version. */
  #isUnpublished = false;
  /** The revocations of other instances for which this instance has already searched its certificates. */
  #takenOver: ReadonlyMap<string, StoredRevocation> = new Map();
  readonly #lost: LostAnswers;
  /** The version that each reader has installed and the time of its report, since the signer's start. */
  readonly reports: Map<string, { readonly version: number; readonly at: number }> = new Map();

  private constructor(options: RevocationListOptions, version: number) {
    this.#options = options;
    this.#durable = new Durable([this.#made(version)], options);
    this.#lost = new LostAnswers({
      ...options,
      isGivenUp: (name) => this.listed.hasRequest(name),
      revoke: (serials) => this.revoke(serials.map((value) => ({ kind: "serial", value: value.toString() }))),
    });
  }

  /**
   * Loads the content of the store. Frozen subjects are revoked, even if the store contains only the freeze.
   *
   * @throws {AppError} `invalid_config` if a revocation or a certificate cannot be read
   */
  static async open(options: RevocationListOptions, freezes: FreezeSet): Promise<RevocationList> {
    const { store, clock } = options;
    const now = clock.now();
    const list = new RevocationList(options, nextVersion(await store.loadKrlVersion(), now));
    const stored = await store.loadCertificates(now);
    list.issued.addAll(stored);
    await list.#addRecorded(stored, now);
    const revocations = await store.loadRevocations(now - REVOCATION_SECONDS * 1000);
    for (const revocation of revocations) finish(list.listed.add(revocation, list.issued));
    const found: StoredRevocation[] = [];
    for (const { kind, value, frozenAt } of Object.values(freezes).flatMap((of) => [...of.values()])) {
      if (kind === "session_id") continue;
      // For a caller or end user, also revoke certificates issued after the freeze, although there should be
      // none.
      const revokedAt = kind === "serial" ? frozenAt : now;
      if (revokedAt <= now - REVOCATION_SECONDS * 1000) continue;
      const before = list.listed.size;
      finish(list.listed.add({ kind, value, revokedAt }, list.issued));
      if (list.listed.size > before) found.push({ kind, value, revokedAt });
    }
    const version = await list.#store(found, list.current.version) ?? list.current.version;
    list.#durable.view = [list.#made(version)];
    list.#lost.want(requestsOf(revocations));
    return list;
  }

  get current(): PublishedList {
    return this.#durable.view[0];
  }

  /** Finds a version of the list, which may be a recently replaced one. */
  version(version: number): PublishedList | undefined {
    return this.#durable.view.find((list) => list.version === version);
  }

  /** Remembers a certificate. Call it before the last check of the freezes and before its release. */
  add(holder: CertificateHolder, facts: IssuedFacts): void {
    this.issued.add(holder, facts);
    if (!this.#options.store.survivesRestart) return;
    addToBatches(this.#unstored, holder, facts);
    this.#storing ??= this.#storeSoon();
  }

  /**
   * Loads the certificates and revocations of other instances. If their freezes or revocations have changed,
   * this instance stores its own certificates, so that a revoking instance finds them.
   *
   * @param content.state absent if unchanged since the last load
   * @throws {AppError} if the store cannot save the certificates
   */
  takeOver({ certificates, state }: {
    readonly certificates: readonly IssuedBatch[];
    readonly state?: { readonly revocations: readonly StoredRevocation[]; readonly krlVersion: number };
  }): Promise<void> {
    return this.#durable.change(async () => {
      if (state !== undefined) await this.#storeCertificates();
      else if (certificates.length === 0) return;
      const added = new IssuedCertificates();
      for (const known of [this.issued, added]) known.addAll(certificates);
      const before = this.listed.size;
      const lost = requestsOf(state?.revocations ?? []).filter((name) => !this.listed.hasRequest(name));
      // This instance has searched its known certificates for an earlier revocation, so only new certificates
      // can match it.
      const taken = new Map<string, StoredRevocation>();
      for (const revocation of state?.revocations ?? this.#takenOver.values()) {
        const key = `${revocation.kind} ${revocation.value} ${revocation.revokedAt}`;
        await this.#list(revocation, this.#takenOver.has(key) ? added : this.issued);
        taken.set(key, revocation);
      }
      this.#takenOver = taken;
      // If this step is repeated after a failure, these names no longer count as new.
      this.#lost.want(lost);
      this.#isUnpublished ||= this.listed.size > before;
      const { store, clock } = this.#options;
      // The list of this instance may have more content, so it needs a version that no other instance has
      // published.
      const krlVersion = state?.krlVersion ?? this.current.version;
      const version = this.#isUnpublished && krlVersion <= this.current.version
        ? await store.putRevocations([], nextVersion(this.current.version, clock.now()))
        : krlVersion;
      if (version > this.current.version) this.#publish(version);
      // Do not wait for the search, because no decision depends on the log.
      void this.seekGivenUp();
    });
  }

  /**
   * Abandons requests whose answers were lost. The instance whose log contains an answer revokes its
   * certificate. No instance releases a certificate for an abandoned request later.
   *
   * @throws the error of reading the log
   */
  async giveUp(caller: string, requestIds: readonly string[]): Promise<RevocationOutcome> {
    const names = requestIds.map((id) => nameRequest(caller, id));
    const outcome = await this.revoke(names.map((value) => ({ kind: "request", value })));
    this.#lost.want(names);
    return { ...outcome, revoked: await this.#lost.search(), version: this.current.version };
  }

  mayGiveUp(caller: string, count: number): boolean {
    return this.listed.requestsOf(caller) + count <= MAX_GIVEN_UP;
  }

  /** Searches again for the answers of abandoned requests that this instance has not found yet. */
  seekGivenUp(): Promise<void> {
    return this.#lost.seek();
  }

  /** Whether a request was abandoned. */
  isGivenUp(caller: string, requestId: string | undefined): boolean {
    return requestId !== undefined && this.listed.hasRequest(...namesOfRequest(caller, requestId));
  }

  /**
   * Marks decision documents as used, durably. Of concurrent requests with the same document, at any signer that shares
   * the store, one gets true. After a failure, nothing is marked.
   *
   * @throws {AppError} the error of the store
   */
  useDocuments(
    documents: readonly { readonly sha256: string; readonly expiresAt: number }[],
  ): Promise<boolean> {
    // The mark must outlive the document.
    const used = documents.map(({ sha256, expiresAt }) =>
      ({ kind: "document", value: sha256, revokedAt: expiresAt * 1000 }) as const
    );
    return this.#durable.change(async () => {
      if (this.listed.hasDocument(...used.map(({ value }) => value))) return false;
      const isFirst = await this.#durable.write(() => this.#options.store.useDocuments(used));
      for (const each of used) await this.#list(each);
      return isFirst;
    });
  }

  /** Revokes the certificates of subjects permanently. When it resolves, the list contains them. */
  revoke(subjects: readonly CertificateSubject[]): Promise<RevocationOutcome> {
    return this.#durable.change(async () => {
      const now = this.#options.clock.now();
      const before = this.listed.size;
      const kept = subjects.map(({ kind, value }) => {
        // Revoke a known certificate even if it was issued by a clock that was ahead of this one.
        const revokedAt = Math.max(now, this.issued.lastIssue({ kind, value }) * 1000);
        return { kind, value, revokedAt };
      });
      let revoked = 0;
      for (const revocation of kept) revoked += await this.#list(revocation);
      const next = this.listed.size > before ? nextVersion(this.current.version, now) : undefined;
      // Store the revocation even if no certificate is known, because another instance may have issued one.
      const version = await this.#store(kept, next);
      if (next !== undefined) this.#publish(version ?? next);
      return { revoked, version: this.current.version, persisted: version !== undefined };
    });
  }

  /** Returns the list as soon as it is newer than a version; `undefined` after 25 s. */
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

  /** Removes names that no list needs any more, and retries failed writes. Call it periodically. */
  async sweep(): Promise<void> {
    await this.seekGivenUp();
    await this.#durable.change(async () => {
      const now = this.#options.clock.now();
      const seconds = Math.floor(now / 1000);
      this.issued.forget(seconds);
      const dropped = this.listed.forget(seconds);
      if (dropped === 0 && this.#durable.unstored.length === 0) return;
      const next = nextVersion(this.current.version, now);
      const version = await this.#store([], dropped === 0 ? undefined : next);
      if (dropped > 0) this.#publish(version ?? next);
    });
  }

  release(): void {
    this.#closing.abort();
    for (const tell of this.#waiting) tell();
  }

  /** Ends the background work, but does not close the store. */
  async close(): Promise<void> {
    this.release();
    await this.#lost.close();
    await this.#tryCertificates();
  }

  /** Adds certificates that the previous process issued and recorded but did not store. */
  async #addRecorded(stored: readonly IssuedBatch[], now: number): Promise<void> {
    const { readRecords, forwarders } = this.#options;
    const known = new Set(stored.flatMap(({ serials }) => serials));
    for await (const certificate of withoutKnown(readRecords(now - REVOCATION_SECONDS * 1000), known)) {
      const { holders, facts } = toIssued(certificate, forwarders);
      for (const holder of holders) this.add(holder, facts);
    }
  }

  /** Adds a revocation in steps. Meanwhile, requests are answered, and the published list does not change. */
  #list(revocation: StoredRevocation, among = this.issued): Promise<number> {
    return finishInSlices(this.listed.add(revocation, among), this.#options.clock);
  }

  #publish(version: number): void {
    this.#isUnpublished = false;
    this.#durable.view = [this.#made(version), ...this.#durable.view.slice(0, KEPT_VERSIONS - 1)];
    for (const tell of this.#waiting) tell();
  }

  #made(version: number): PublishedList {
    return new PublishedList(version, this.listed.encode(version, this.#options.clock.now()));
  }

  async #storeSoon(): Promise<void> {
    const { clock } = this.#options;
    // close() stores the remaining certificates.
    if (!await clock.sleep(STORE_DELAY_MS, this.#closing.signal).then(() => true, () => false)) return;
    this.#storing = undefined;
    await this.#tryCertificates();
  }

  #tryCertificates(): Promise<void> {
    const store = () => this.#durable.write(() => this.#storeCertificates()).catch(this.#logFirst);
    return this.#durable.change(store);
  }

  /** @throws {AppError} if the store cannot save the certificates, which then wait for the next attempt */
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
   * Stores these and the waiting revocations, after the certificates that they revoke.
   *
   * @param next the lowest number that the version may have; `undefined`: it stays
   * @returns the version in the store; `undefined` if the store could not save the revocations
   */
  async #store(revocations: readonly StoredRevocation[], next?: number): Promise<number | undefined> {
    this.#durable.enforce(...revocations);
    try {
      const version = await this.#durable.write(async () => {
        await this.#storeCertificates();
        return await this.#options.store.putRevocations(this.#durable.unstored, next);
      });
      this.#durable.settle(() => true);
      this.#isStoreBroken = false;
      return version;
    } catch (error) {
      this.#logFirst(error);
      return undefined;
    }
  }

  readonly #logFirst = (error: unknown): void => {
    if (this.#isStoreBroken) return;
    this.#isStoreBroken = true;
    this.#options.logger.error("issued or revoked certificates not persisted yet", { error });
  };
}

function requestsOf(revocations: readonly StoredRevocation[]): readonly string[] {
  return revocations.filter(({ kind }) => kind === "request").map(({ value }) => value);
}

/** The next version. It increases even if the clock was set back or the store was lost. */
function nextVersion(last: number, nowMs: number): number {
  return Math.max(last + 1, Math.floor(nowMs));
}
