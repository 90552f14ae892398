import type { Clock, Random } from "@gateway/shared/clock";
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
import type { ServiceLogger } from "@gateway/shared/service";
import { type ChangeLock, Durable } from "@gateway/shared/state";
import type { FreezeSubject } from "@gateway/shared/wire";
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
import type { StateStore } from "./state/store.ts";

interface LiveStateOptions {
  readonly store: StateStore;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: ServiceLogger;
  /** The lock that policy edits and reloads use as well. */
  readonly lock: ChangeLock;
  readonly onStoreError: () => void;
}

/** The state that operators change at run time. */
interface LiveView {
  readonly grants: GrantSet;
  readonly freezes: FreezeSet;
}

interface Stored {
  readonly freezes: readonly Freeze[];
  readonly grants: readonly Grant[];
}

/** Writes the audit records of a change. `Facts` are known when the change gets the lock. */
export interface ChangeRecords<Facts> {
  /** Records that the change was made. It runs before the effect. If it throws, nothing changes. */
  readonly made: (facts: Facts) => Promise<void>;
  /** Records that the store could not save the change. Never throws. */
  readonly notStored: (facts: Facts, error: unknown) => Promise<void>;
}

export interface GrantDraft extends Pick<Grant, "host" | "allow" | "caller" | "endUser" | "approver"> {
  readonly ttlSeconds: number;
}

/** A waiver to be learned from an issued and recorded command. */
export interface WaiverDraft extends GatedCommand, Pick<Grant, "approver" | "approvalId"> {
  readonly peer: string;
  /** Whether a human approved the command, a waiver replaced the approval, or no approval was needed. */
  readonly gate: "approved" | "waived" | "none";
  readonly ttlSeconds: number;
  /** The maximum lifetime of a grant in seconds; 0: no maximum. */
  readonly maxTtlSeconds: number;
}

export interface FreezeFacts {
  readonly newlyFrozen: boolean;
  readonly grantsRevoked: number;
}

/** Grants, waivers and freezes. A failed write never permits more than before. */
export class LiveState {
  readonly #options: LiveStateOptions;
  readonly #durable: Durable<LiveView, Freeze>;
  /** The freezes in progress, which run concurrently. An unfreeze waits for them. */
  #freezing: Promise<unknown> = Promise.resolve();

  private constructor(options: LiveStateOptions, stored: Stored) {
    this.#options = options;
    this.#durable = new Durable(viewOf(stored, options.logger), options);
  }

  /** @throws {AppError} `invalid_config` if a stored freeze cannot be read */
  static async open(options: LiveStateOptions): Promise<LiveState> {
    const { store, clock } = options;
    const freezes = await store.loadFreezes();
    return new LiveState(options, { freezes, grants: await store.loadGrants(clock.now()) });
  }

  takeOver<T extends { readonly state?: Stored }>(load: () => Promise<T>): Promise<T> {
    const { logger } = this.#options;
    return this.#durable.takeOver(load, ({ state }, unstored) => {
      if (state === undefined) return this.view;
      const stored = { ...state, freezes: [...state.freezes, ...unstored] };
      return viewOf(stored, logger, this.view.grants);
    });
  }

  get view(): LiveView {
    return this.#durable.view;
  }

  get survivesRestart(): boolean {
    return this.#options.store.survivesRestart;
  }

  get grants(): LiveGrants {
    return { grants: this.view.grants, now: this.#options.clock.now() };
  }

  /**
   * Finds the freeze that applies to a request. Call it before the decision, and again after the last wait
   * before anything is released, because a freeze may have been acknowledged meanwhile.
   */
  findFreeze(identity: RequestIdentity): Freeze | undefined {
    return findFreeze(this.view.freezes, identity);
  }

  listGrants(): readonly Grant[] {
    return listActive(this.grants);
  }

  /**
   * Creates a grant. First checks that its scope is not frozen, then that its patterns are valid.
   *
   * @throws {AppError} `internal` if it could not be stored, and the errors of `made`. In both cases no grant
   * is created
   */
  createGrant({ ttlSeconds, ...draft }: GrantDraft, records: ChangeRecords<Grant>) {
    return this.#durable.change(async () => {
      const freeze = findScopeFreeze(this.view.freezes, draft);
      if (freeze !== undefined) return { kind: "frozen", freeze } as const;
      const compiled = compileGrant({
        ...this.#birth(ttlSeconds),
        ...draft,
        ...{ waiveApproval: [], sudo: false, sudoUser: "", contentSha256: "", approvalId: "" },
      });
      if (compiled.kind === "invalid") {
        return { kind: "invalid_pattern", problem: compiled.problem } as const;
      }
      return await this.#install(compiled.grant, [], records);
    });
  }

  /**
   * Revokes an active grant or waiver; false if there is none with this id.
   *
   * @throws {AppError} `internal` if the store still has it, and the errors of `made`. In both cases the
   * grant stays in force
   */
  revokeGrant(id: string, records: ChangeRecords<Grant>): Promise<boolean> {
    const { store, clock } = this.#options;
    return this.#durable.change(async () => {
      const grant = this.view.grants.byId.get(id)?.grant;
      if (grant === undefined || !isActive(grant, clock.now())) return false;
      // Delete from the store first: a grant that is removed from memory alone would return after a restart.
      await this.#recorded(records, grant, () => store.deleteGrant(id));
      this.#removeGrants([id]);
      return true;
    });
  }

  /**
   * Learns a waiver, which replaces an older one of the same scope. Call it when the certificate's record is
   * durable.
   *
   * @throws {AppError} `internal` if it could not be stored, and the errors of `made`. In both cases nothing
   * is learned
   */
  learnWaiver(draft: WaiverDraft, records: ChangeRecords<Grant>) {
    const skip = (reason: string) => ({ kind: "skipped", reason }) as const;
    return this.#durable.change(async () => {
      // A freeze may have been set after the certificate was issued.
      if (findFreeze(this.view.freezes, draft) !== undefined) return skip("subject is frozen");
      const scope = waiverScope(draft);
      const older = findSameScope(this.view.grants, scope).map(({ id }) => id);
      const isGated = draft.gate === "approved" || (draft.gate === "waived" && older.length > 0);
      if (!isGated) return skip("not require_approval");
      const problem = unlearnable(draft);
      if (problem !== undefined) return skip(problem);
      const { approver, approvalId } = draft;
      const ttlSeconds = clampWaiverTtl(draft.ttlSeconds, draft.maxTtlSeconds);
      const compiled = compileGrant({ ...this.#birth(ttlSeconds), ...scope, approver, approvalId });
      if (compiled.kind === "invalid") return skip(compiled.problem);
      return await this.#install(compiled.grant, older, records);
    });
  }

  /**
   * Freezes a subject and removes its grants and waivers. Once this resolves, all requests of the subject are
   * denied. If the store failed, `kept` is `memory`, and a restart or power loss may undo the freeze.
   *
   * @throws the errors of `made`, in which case nothing is frozen
   */
  freeze(freeze: Omit<Freeze, "frozenAt">, records: ChangeRecords<FreezeFacts>) {
    const done = this.#freeze(freeze, records);
    this.#freezing = Promise.allSettled([this.#freezing, done]);
    return done;
  }

  async #freeze(
    { kind, value, reason, frozenBy }: Omit<Freeze, "frozenAt">,
    records: ChangeRecords<FreezeFacts>,
  ) {
    const { logger, clock } = this.#options;
    const { facts, frozen } = await this.#durable.change(async () => {
      const frozen: Freeze = { kind, value, reason, frozenBy, frozenAt: clock.now() };
      const facts = {
        newlyFrozen: !isFrozen(this.view.freezes, frozen),
        grantsRevoked: this.listGrants().filter((grant) => isScopedTo(grant, frozen)).length,
      };
      await records.made(facts);
      this.#durable.settle((other) => isSameSubject(other, frozen));
      this.#durable.enforce(frozen);
      this.#removeGrantsOf(frozen);
      this.#durable.view = { ...this.view, freezes: withFreeze(this.view.freezes, frozen) };
      return { facts, frozen };
    });
    try {
      // Write without the lock: while a database hangs, freezes must not wait for each other's timeouts.
      await this.#durable.write(() => this.#store(frozen));
    } catch (error) {
      logger.error("freeze enforced but not persisted, a restart would undo it", {
        subject: formatSubject(frozen),
        error,
      });
      await records.notStored(facts, error);
      return { ...facts, kept: "memory" } as const;
    }
    // Settle with the lock: a take-over may have read the store before this freeze was stored, and must still
    // find the freeze in memory.
    await this.#durable.change(() => Promise.resolve(this.#durable.settle((other) => other === frozen)));
    return { ...facts, kept: "durable" } as const;
  }

  /**
   * Lifts a freeze. The subject does not get its former grants back. Returns false if the subject was not
   * frozen.
   *
   * @throws {AppError} `internal` if the store still has it, and the errors of `made`. In both cases the
   * subject stays frozen
   */
  async unfreeze(
    subject: FreezeSubject,
    records: ChangeRecords<{ readonly wasFrozen: boolean }>,
  ): Promise<boolean> {
    await this.#freezing;
    return await this.#durable.change(async () => {
      const wasFrozen = isFrozen(this.view.freezes, subject);
      const wasStored = await this.#recorded(
        records,
        { wasFrozen },
        () => this.#options.store.deleteFreeze(subject),
      );
      this.#durable.settle((freeze) => isSameSubject(freeze, subject));
      // The freeze removed the grants of the subject. Remove a remaining one, so that the unfreeze does not
      // reactivate it.
      if (wasFrozen || wasStored) this.#removeGrantsOf(subject);
      this.#durable.view = { ...this.view, freezes: withoutFreeze(this.view.freezes, subject) };
      return wasFrozen;
    });
  }

  purgeExpired(): Promise<void> {
    const { store, clock, logger } = this.#options;
    return this.#durable.change(async () => {
      const now = clock.now();
      this.#removeGrants(this.#ids((grant) => !isActive(grant, now)));
      await this.#durable.write(() => store.purgeExpired(now)).catch((error) =>
        logger.warn("removing expired grants from the store failed", { error })
      );
    });
  }

  /** Retries to store the freezes that the store could not save. Call it periodically. */
  storeFreezes(): Promise<void> {
    return this.#durable.change(() => this.#retry());
  }

  async close(): Promise<void> {
    await this.#freezing;
    await this.#durable.change(async () => {
      await this.#retry();
      for (const freeze of this.#durable.unstored) {
        this.#options.logger.error("freeze lost at shutdown, it was never persisted", {
          subject: formatSubject(freeze),
        });
      }
      await this.#options.store.close();
    });
  }

  #retry(): Promise<void> {
    return this.#durable.retry(async (freeze) => {
      await this.#store(freeze);
      this.#options.logger.info("freeze persisted", { subject: formatSubject(freeze) });
    });
  }

  async #store(freeze: Freeze): Promise<void> {
    await this.#options.store.putFreeze(freeze);
    await this.#options.store.checkpoint();
  }

  #birth(ttlSeconds: number): Pick<Grant, "id" | "grantedAt" | "expiresAt"> {
    const { clock, random } = this.#options;
    const grantedAt = clock.now();
    return { id: random.bytes(12).toHex(), grantedAt, expiresAt: grantedAt + ttlSeconds * 1000 };
  }

  async #install(ready: ReadyGrant, replaces: readonly string[], records: ChangeRecords<Grant>) {
    const { grant } = ready;
    await this.#recorded(records, grant, () => this.#options.store.insertGrant(grant, replaces));
    this.#removeGrants(replaces);
    this.#durable.view = { ...this.view, grants: addGrant(this.view.grants, ready) };
    return { kind: "created", grant } as const;
  }

  #ids(isWanted: (grant: Grant) => boolean): readonly string[] {
    return [...this.view.grants.byId.values()].filter(({ grant }) => isWanted(grant)).map(({ grant }) =>
      grant.id
    );
  }

  #removeGrants(ids: readonly string[]): void {
    if (ids.length === 0) return;
    this.#durable.view = { ...this.view, grants: removeGrants(this.view.grants, new Set(ids)) };
  }

  #removeGrantsOf(subject: FreezeSubject): void {
    this.#removeGrants(this.#ids((grant) => isScopedTo(grant, subject)));
  }

  async #recorded<Facts, T>(
    { made, notStored }: ChangeRecords<Facts>,
    facts: Facts,
    write: () => Promise<T>,
  ): Promise<T> {
    await made(facts);
    try {
      return await this.#durable.write(write);
    } catch (error) {
      await notStored(facts, error);
      throw error;
    }
  }
}

function viewOf(stored: Stored, logger: ServiceLogger, known: GrantSet = NO_GRANTS): LiveView {
  const freezes = stored.freezes.reduce(withFreeze, NO_FREEZES);
  let grants = NO_GRANTS;
  for (const grant of stored.grants) {
    const ready = known.byId.get(grant.id);
    const isSame = ready !== undefined && JSON.stringify(ready.grant) === JSON.stringify(grant);
    const compiled = isSame ? { kind: "ok", grant: ready } as const : compileGrant(grant);
    if (compiled.kind === "invalid") {
      logger.warn("grant cannot be used and has no effect", { id: grant.id, error: compiled.problem });
    } else if (findScopeFreeze(freezes, grant) === undefined) {
      grants = addGrant(grants, compiled.grant);
    }
  }
  return { grants, freezes };
}
