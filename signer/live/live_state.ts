import type { ChangeLock } from "@gateway/shared/state";
import type { Clock, Random } from "@gateway/shared/clock";
import type { ServiceLogger } from "@gateway/shared/service";
import {
  findFreeze,
  findScopeFreeze,
  formatSubject,
  type Freeze,
  type FreezeSet,
  isFrozen,
  isSameSubject,
  isScopedTo,
  NO_FREEZES,
  type RequestIdentity,
  withFreeze,
  withoutFreeze,
} from "./freezes.ts";
import {
  addGrant,
  clampWaiverTtl,
  compileGrant,
  findSameScope,
  type GatedCommand,
  type Grant,
  type GrantSet,
  isActive,
  listActive,
  type LiveGrants,
  NO_GRANTS,
  type ReadyGrant,
  removeGrants,
  unlearnable,
  waiverScope,
} from "@gateway/shared/policy";
import type { FreezeSubject } from "@gateway/shared/wire";
import type { StateStore } from "./state/store.ts";

/** What a {@linkcode LiveState} works with. */
interface LiveStateOptions {
  readonly store: StateStore;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: ServiceLogger;
  /** The one lock of all changes to what is decided by; policy edits and reloads take it too. */
  readonly lock: ChangeLock;
  /** Called for every change that the store could not make (`statedb_errors_total`). */
  readonly onStoreError: () => void;
}

/** What the operator has set at run time, as one value: read it once, without waiting, and decide by it. */
interface LiveView {
  readonly grants: GrantSet;
  readonly freezes: FreezeSet;
}

/** What a store holds of it. */
interface Stored {
  readonly freezes: readonly Freeze[];
  readonly grants: readonly Grant[];
}

/**
 * Grants, waivers and freezes: in memory for the decisions, in the store for the next start. What a failed write leaves
 * behind is never wider than before. A freeze is in memory before it is in the store, and stays there if the store fails:
 * a freeze cannot wait for room on a disk.
 */
export class LiveState {
  readonly #options: LiveStateOptions;
  #view: LiveView;
  /** In force, and not in the store: in the order they came. */
  #unstored: readonly Freeze[] = [];
  /** The freezes under way: they run at the same time, an unfreeze after them. */
  #freezing: Promise<unknown> = Promise.resolve();

  private constructor(options: LiveStateOptions, view: LiveView) {
    this.#options = options;
    this.#view = view;
  }

  /**
   * Loads what the store holds.
   *
   * @throws {AppError} `invalid_config` when a freeze can't be read
   */
  static async open(options: LiveStateOptions): Promise<LiveState> {
    const { store, clock } = options;
    const freezes = await store.loadFreezes();
    return new LiveState(options, viewOf({ freezes, grants: await store.loadGrants(clock.now()) }, options));
  }

  /**
   * Takes over what a store holds that others change too, where it was changed. What it loads is what is in force then:
   * no change of this process comes between.
   */
  takeOver<T extends { readonly state?: Stored }>(load: () => Promise<T>): Promise<T> {
    return this.#options.lock.run(async () => {
      const content = await load();
      if (content.state === undefined) return content;
      const freezes = [...content.state.freezes, ...this.#unstored];
      this.#view = viewOf({ freezes, grants: content.state.grants }, this.#options, this.#view.grants);
      return content;
    });
  }

  get view(): LiveView {
    return this.#view;
  }

  /** Whether a freeze outlives the process. */
  get survivesRestart(): boolean {
    return this.#options.store.survivesRestart;
  }

  /** Grants and waivers for one decision, at the present time. */
  get grants(): LiveGrants {
    return { grants: this.#view.grants, now: this.#options.clock.now() };
  }

  /**
   * The freeze that stops a request, if there is one. Ask before the decision, and again after the last wait
   * before anything is released: a freeze may have been acknowledged meanwhile.
   */
  findFreeze(identity: RequestIdentity): Freeze | undefined {
    return findFreeze(this.#view.freezes, identity);
  }

  /** The active grants and waivers, the oldest first. */
  listGrants(): readonly Grant[] {
    return listActive(this.grants);
  }

  /**
   * Makes a grant, unless its scope is frozen or a pattern can't be used, in this order.
   *
   * @throws {AppError} `internal` when it could not be stored, and what `made` throws: there is no grant then
   */
  createGrant(draft: GrantDraft, records: ChangeRecords<Grant>): Promise<GrantOutcome> {
    return this.#options.lock.run(async () => {
      const freeze = findScopeFreeze(this.#view.freezes, draft);
      if (freeze !== undefined) return { kind: "frozen", freeze };
      const { host, allow, caller, endUser, approver } = draft;
      const compiled = compileGrant({
        ...this.#birth(draft.ttlSeconds),
        ...{ host, allow, caller, endUser, approver },
        ...{ waiveApproval: [], sudo: false, sudoUser: "", contentSha256: "", approvalId: "" },
      });
      if (compiled.kind === "invalid") return { kind: "invalid_pattern", problem: compiled.problem };
      await this.#install(compiled.grant, [], records);
      return { kind: "created", grant: compiled.grant.grant };
    });
  }

  /**
   * Takes an active grant or waiver back; false when there is none of this id.
   *
   * @throws {AppError} `internal` when the store still has it, and what `made` throws: it stays in force then
   */
  revokeGrant(id: string, records: ChangeRecords<Grant>): Promise<boolean> {
    const { lock, store, clock } = this.#options;
    return lock.run(async () => {
      const grant = this.#view.grants.byId.get(id)?.grant;
      if (grant === undefined || !isActive(grant, clock.now())) return false;
      // A grant gone from memory alone would be back after a restart.
      await this.#recorded(records, grant, () => store.deleteGrant(id));
      this.#removeGrants([id]);
      return true;
    });
  }

  /**
   * Learns a waiver, in the place of an older one of the same scope. Call it when the certificate's record is
   * durable.
   *
   * @throws {AppError} `internal` when it could not be stored, and what `made` throws: nothing is learned then
   */
  learnWaiver(draft: WaiverDraft, records: ChangeRecords<Grant>): Promise<WaiverOutcome> {
    return this.#options.lock.run(async () => {
      // Asked here and not with the certificate: the freeze may have come between.
      const freeze = findFreeze(this.#view.freezes, draft);
      if (freeze !== undefined) return { kind: "skipped", reason: "subject is frozen" };
      const scope = waiverScope(draft);
      const older = findSameScope(this.#view.grants, scope).map(({ id }) => id);
      const isGated = draft.gate === "approved" || (draft.gate === "waived" && older.length > 0);
      if (!isGated) return { kind: "skipped", reason: "not require_approval" };
      const problem = unlearnable(draft);
      if (problem !== undefined) return { kind: "skipped", reason: problem };
      const compiled = compileGrant({
        ...this.#birth(clampWaiverTtl(draft.ttlSeconds, draft.maxTtlSeconds)),
        ...scope,
        approver: draft.approver,
        approvalId: draft.approvalId,
      });
      if (compiled.kind === "invalid") return { kind: "skipped", reason: compiled.problem };
      await this.#install(compiled.grant, older, records);
      return { kind: "created", grant: compiled.grant.grant };
    });
  }

  /**
   * Freezes a subject and takes its grants and waivers away. Once this resolves, no request that is asked
   * about passes any more, also where the store could not take it.
   *
   * @throws what `made` throws: nothing is frozen then
   */
  freeze(freeze: Omit<Freeze, "frozenAt">, records: ChangeRecords<FreezeFacts>): Promise<FreezeOutcome> {
    const done = this.#freeze(freeze, records);
    this.#freezing = Promise.allSettled([this.#freezing, done]);
    return done;
  }

  async #freeze(
    freeze: Omit<Freeze, "frozenAt">,
    records: ChangeRecords<FreezeFacts>,
  ): Promise<FreezeOutcome> {
    const { lock, store, logger, clock } = this.#options;
    const { facts, kept } = await lock.run(async () => {
      const newlyFrozen = !isFrozen(this.#view.freezes, freeze);
      const grantsRevoked = this.listGrants().filter((grant) => isScopedTo(grant, freeze)).length;
      const facts = { newlyFrozen, grantsRevoked };
      await records.made(facts);
      const { kind, value, reason, frozenBy } = freeze;
      const kept: Freeze = { kind, value, reason, frozenBy, frozenAt: clock.now() };
      this.#unstored = [...this.#unstored.filter((other) => !isSameSubject(other, kept)), kept];
      this.#removeGrantsOf(kept);
      this.#view = { ...this.#view, freezes: withFreeze(this.#view.freezes, kept) };
      return { facts, kept };
    });
    // Without the lock: while a database hangs, freezes must not wait for each other's timeouts.
    const failure = await this.#attempt(() => store.putFreeze(kept)) ??
      await this.#attempt(() => store.checkpoint());
    if (failure === undefined) {
      // With the lock: a take-over that read the store before it had this freeze still finds it in memory.
      await lock.run(() => {
        this.#unstored = this.#unstored.filter((other) => other !== kept);
        return Promise.resolve();
      });
      return { ...facts, kept: "durable" };
    }
    logger.error("a freeze is enforced, but not stored: a restart would undo it", {
      subject: formatSubject(kept),
      error: failure.error,
    });
    await records.notStored(facts, failure.error);
    return { ...facts, kept: "memory" };
  }

  /**
   * Lifts a freeze; its subject comes back without the grants it had. False when it was not frozen.
   *
   * @throws {AppError} `internal` when the store still has it, and what `made` throws: it stays frozen then
   */
  async unfreeze(
    subject: FreezeSubject,
    records: ChangeRecords<{ readonly wasFrozen: boolean }>,
  ): Promise<boolean> {
    const { lock, store } = this.#options;
    await this.#freezing;
    return await lock.run(async () => {
      const wasFrozen = isFrozen(this.#view.freezes, subject);
      const wasStored = await this.#recorded(records, { wasFrozen }, () => store.deleteFreeze(subject));
      this.#unstored = this.#unstored.filter((freeze) => !isSameSubject(freeze, subject));
      // None should be left; if one is, it must not come back to life with its subject.
      if (wasFrozen || wasStored) this.#removeGrantsOf(subject);
      this.#view = { ...this.#view, freezes: withoutFreeze(this.#view.freezes, subject) };
      return wasFrozen;
    });
  }

  /** Forgets what has expired; for a periodic call. A store that fails is logged, and asked again next time. */
  purgeExpired(): Promise<void> {
    const { lock, store, clock, logger } = this.#options;
    return lock.run(async () => {
      const now = clock.now();
      const expired = [...this.#view.grants.byId.values()].filter(({ grant }) => !isActive(grant, now));
      this.#removeGrants(expired.map(({ grant }) => grant.id));
      try {
        await this.#counted(store.purgeExpired(now));
      } catch (error) {
        logger.warn("expired grants stay in the store for now", { error });
      }
    });
  }

  /** Offers the store again what it could not take of the freezes in force; for a periodic call. */
  storeFreezes(): Promise<void> {
    return this.#options.lock.run(() => this.#storeFreezes());
  }

  /** Waits for the changes under way and closes the store. */
  async close(): Promise<void> {
    await this.#freezing;
    await this.#options.lock.run(async () => {
      await this.#storeFreezes();
      for (const freeze of this.#unstored) {
        this.#options.logger.error("a freeze ends with this process: the store never took it", {
          subject: formatSubject(freeze),
        });
      }
      await this.#options.store.close();
    });
  }

  async #storeFreezes(): Promise<void> {
    const { store } = this.#options;
    for (const freeze of this.#unstored) {
      if (await this.#attempt(() => store.putFreeze(freeze)) !== undefined) return;
      if (await this.#attempt(() => store.checkpoint()) !== undefined) return;
      this.#unstored = this.#unstored.filter((other) => other !== freeze);
      this.#options.logger.info("the store has taken a freeze now", { subject: formatSubject(freeze) });
    }
  }

  /** The error of the store; `undefined` if there was none. */
  async #attempt(change: () => Promise<void>): Promise<{ readonly error: unknown } | undefined> {
    try {
      await this.#counted(change());
      return undefined;
    } catch (error) {
      return { error };
    }
  }

  #birth(ttlSeconds: number): Pick<Grant, "id" | "grantedAt" | "expiresAt"> {
    const { clock, random } = this.#options;
    const grantedAt = clock.now();
    return { id: random.bytes(12).toHex(), grantedAt, expiresAt: grantedAt + ttlSeconds * 1000 };
  }

  async #install(
    ready: ReadyGrant,
    replaces: readonly string[],
    records: ChangeRecords<Grant>,
  ): Promise<void> {
    const { store } = this.#options;
    await this.#recorded(records, ready.grant, () => store.insertGrant(ready.grant, replaces));
    this.#removeGrants(replaces);
    this.#view = { ...this.#view, grants: addGrant(this.#view.grants, ready) };
  }

  #removeGrants(ids: readonly string[]): void {
    if (ids.length === 0) return;
    this.#view = { ...this.#view, grants: removeGrants(this.#view.grants, new Set(ids)) };
  }

  #removeGrantsOf(subject: FreezeSubject): void {
    const all = [...this.#view.grants.byId.values()].map(({ grant }) => grant);
    this.#removeGrants(all.filter((grant) => isScopedTo(grant, subject)).map(({ id }) => id));
  }

  /** Records a change and stores it; one that can't be stored is taken back in the log. */
  async #recorded<Facts, T>(
    { made, notStored }: ChangeRecords<Facts>,
    facts: Facts,
    change: () => Promise<T>,
  ): Promise<T> {
    await made(facts);
    try {
      return await this.#counted(change());
    } catch (error) {
      await notStored(facts, error);
      throw error;
    }
  }

  async #counted<T>(change: Promise<T>): Promise<T> {
    try {
      return await change;
    } catch (error) {
      this.#options.onStoreError();
      throw error;
    }
  }
}

/** @param known keeps what is compiled already */
function viewOf(
  stored: Stored,
  { logger }: Pick<LiveStateOptions, "logger">,
  known: GrantSet = NO_GRANTS,
): LiveView {
  const freezes = stored.freezes.reduce(withFreeze, NO_FREEZES);
  let grants = NO_GRANTS;
  for (const grant of stored.grants) {
    const ready = known.byId.get(grant.id);
    const isSame = ready !== undefined && JSON.stringify(ready.grant) === JSON.stringify(grant);
    const compiled = isSame ? { kind: "ok", grant: ready } as const : compileGrant(grant);
    if (compiled.kind === "invalid") {
      logger.warn("A grant can't be used and has no effect", { id: grant.id, error: compiled.problem });
    } else if (findScopeFreeze(freezes, grant) === undefined) {
      grants = addGrant(grants, compiled.grant);
    }
  }
  return { grants, freezes };
}

/** The audit records of a change, with what is known once the change has its turn. */
export interface ChangeRecords<Facts> {
  /** Says that the change is made. It runs before the effect; when it throws, nothing changes. */
  readonly made: (facts: Facts) => Promise<void>;
  /** Takes back what {@linkcode made} has said, where the store could not take the change. Never throws. */
  readonly notStored: (facts: Facts, error: unknown) => Promise<void>;
}

export interface GrantDraft {
  readonly host: string;
  readonly allow: readonly string[];
  /** Empty: any. */
  readonly caller: string;
  /** Empty: any. */
  readonly endUser: string;
  readonly ttlSeconds: number;
  readonly approver: string;
}

/** What became of a {@linkcode GrantDraft}. */
type GrantOutcome =
  | { readonly kind: "created"; readonly grant: Grant }
  | { readonly kind: "frozen"; readonly freeze: Freeze }
  | { readonly kind: "invalid_pattern"; readonly problem: string };

/** A waiver to be learned from a command whose certificate is issued and recorded. */
export interface WaiverDraft extends GatedCommand {
  readonly peer: string;
  /** Why the command ran: a human had approved it, a waiver spared it that, or it needed no approval. */
  readonly gate: "approved" | "waived" | "none";
  readonly ttlSeconds: number;
  /** The cap of a grant's life, in seconds; 0: none. */
  readonly maxTtlSeconds: number;
  readonly approver: string;
  readonly approvalId: string;
}

/** What became of a {@linkcode WaiverDraft}. */
type WaiverOutcome =
  | { readonly kind: "created"; readonly grant: Grant }
  /** `reason` is for the audit record. */
  | { readonly kind: "skipped"; readonly reason: string };

export interface FreezeFacts {
  readonly newlyFrozen: boolean;
  /** Active grants and waivers that are gone. */
  readonly grantsRevoked: number;
}

/** What a freeze did; the subject is frozen in every case. */
interface FreezeOutcome extends FreezeFacts {
  /** `memory`: the store failed, so a restart or a loss of power may undo it. */
  readonly kept: "durable" | "memory";
}
