import { within } from "@gateway/shared/clock";
import { ChangeLock } from "@gateway/shared/state";
import { type ApprovalRecord, MAX_PROOFS, type SignRequest } from "@gateway/shared/wire";
import {
  type Approval,
  type ApprovalDraft,
  decide,
  identityOf,
  isSameKey,
  MonotonicTime,
  proofsOf,
  type Timing,
  toRecord,
  type Verdict,
  withoutToken,
} from "./approval.ts";
import type { Claim, ClaimOutcome, CreateOutcome, DecideOutcome, RegistryOptions } from "./outcomes.ts";
import { ApprovalIndex, Entry } from "./approval_index.ts";

/** The number of approvals that one change removes from the store while requests wait. */
const PURGE_BATCH = 200;

type Audit = (approval: Approval) => Promise<void>;

/**
 * The approvals of this control plane: in memory for every answer, and in the store for the next start. While
 * a change waits for the audit log, the store or the signer, no second decision or collection can succeed: a
 * decision checks the state again after its audit, and a claim is taken in one step.
 */
export class ApprovalRegistry {
  readonly #options: RegistryOptions;
  readonly #timeoutMs: number;
  readonly #time: MonotonicTime;
  readonly #index = new ApprovalIndex();
  readonly #purges = new ChangeLock();
  #nextPurgeAt = -Infinity;
  /** The IDs of approvals that are being stored. */
  readonly #arriving = new Set<string>();

  private constructor(options: RegistryOptions) {
    this.#options = options;
    this.#timeoutMs = options.timeoutSeconds * 1000;
    this.#time = new MonotonicTime(options.clock);
  }

  /** Loads the stored approvals, which no longer have the tokens of end users. */
  static async open(options: RegistryOptions): Promise<ApprovalRegistry> {
    const registry = new ApprovalRegistry(options);
    const now = registry.#time.now();
    registry.#takeIn(await options.store.loadApprovals({ now, timeoutMs: registry.#timeoutMs }), now);
    registry.#sweep();
    return registry;
  }

  /**
   * Parks a request until an approver decides; durable when the promise resolves.
   *
   * @throws {AppError} `internal` if the store failed, in which case there is no approval
   */
  async create({ bearerToken, ...draft }: ApprovalDraft): Promise<CreateOutcome> {
    const now = this.#sweep();
    const tooMany = this.#index.findFullLimit(draft, this.#options.maxPendingPerCaller);
    if (tooMany !== undefined) return { kind: "too_many", ...tooMany };
    const lead = this.#index.findLead(identityOf(draft), now);
    // Requests that are decided as one expire as one.
    const { createdAt, timeoutMs } = lead?.approval ??
      { createdAt: this.#time.onClock(now), timeoutMs: this.#timeoutMs };
    const approval: Approval = {
      ...draft,
      id: this.#options.random.bytes(16).toHex(),
      createdAt,
      ...(timeoutMs !== undefined && { timeoutMs }),
      state: { kind: "pending" },
      request: withoutToken(draft.request),
      ...(lead !== undefined && { lead: lead.approval.id }),
    };
    const skew = lead?.skew ?? now - createdAt;
    const entry = new Entry(approval, { bearerToken, skew, timeoutMs: this.#timeoutMs });
    // Count the entry before the wait, so that concurrent requests cannot exceed the limit and only one of
    // them leads.
    this.#index.count(entry);
    this.#index.offerLead(entry, now);
    this.#arriving.add(approval.id);
    const { notifyMs = 0, store } = this.#options;
    const keeping = {
      keptUntil: createdAt + 2 * entry.timeoutMs,
      // Also for a request that joins: the lead may be decided alone before this request is stored.
      ...(notifyMs > 0 && { notifyUntil: this.#time.onClock(now) + notifyMs }),
    };
    try {
      await this.#stored(store.insertApproval(approval, keeping));
      this.#index.add(entry);
    } catch (error) {
      this.#index.settle(entry);
      throw error;
    } finally {
      this.#arriving.delete(approval.id);
    }
    this.#index.regroup(entry, this.#time.now());
    return { kind: "parked", approval, hasJoined: entry.lead !== undefined, ...keeping };
  }

  /** Pending approvals, then the others, each the newest first; of a group only the first one. */
  list(): readonly Approval[] {
    const now = this.#sweep();
    const entries = [...this.#index.entries()].filter(({ lead }) => lead === undefined).reverse()
      .sort((a, b) => b.approval.createdAt - a.approval.createdAt);
    const isPending = (entry: Entry) => entry.statusAt(now) === "pending";
    return [...entries.filter(isPending), ...entries.filter((entry) => !isPending(entry))]
      .map(({ approval }) => approval);
  }

  find(id: string): Approval | undefined {
    return this.#index.find(id, this.#time.now())?.approval;
  }

  /** The request of an approval, with the end user's token if this process still has it. */
  requestOf(id: string): SignRequest | undefined {
    const entry = this.#index.find(id, this.#time.now());
    return entry && { ...entry.approval.request, bearer_token: entry.bearerToken };
  }

  /** The approval of an ID, unless it is decided together with an earlier one. */
  findFirst(id: string): Approval | undefined {
    const entry = this.#index.find(id, this.#time.now());
    return entry?.lead === undefined ? entry?.approval : undefined;
  }

  /** An approval as approvers see it now. */
  describe(approval: Approval): ApprovalRecord {
    const now = this.#time.now();
    const entry = this.#index.find(approval.id, now);
    const time = entry?.timing(now).now ?? this.#time.onClock(now);
    const others = entry?.group.filter((each) => each !== entry).map((each) => each.approval);
    return toRecord(approval, { now: time, timeoutMs: approval.timeoutMs ?? this.#timeoutMs }, others);
  }

  /**
   * Decides one request, once, and the identical requests that the approver was shown with it. All audits come before any
   * effect; if one rejects, nothing has changed. Identical requests that were not shown stay pending.
   *
   * @throws {AppError} `internal` if the store failed and nothing has changed; and the error of `audit`
   */
  async decide(id: string, verdict: Verdict, audit: Audit): Promise<DecideOutcome> {
    const entry = this.#index.find(id, this.#time.now());
    if (entry === undefined) return { kind: "unknown" };
    const entries = [entry];
    for (const shown of new Set(verdict.shown).difference(new Set([id]))) {
      const other = this.#index.find(shown, this.#time.now());
      if (other?.identity !== entry.identity) return { kind: "not_identical", id: shown };
      entries.push(other);
    }
    // Overlapping decisions take their locks in the same order, which prevents a deadlock.
    const run = entries.toSorted((a, b) => a.approval.id < b.approval.id ? -1 : 1).reduce(
      (inner, each) => () => each.decisions.run(inner),
      () => this.#decide(entry, entries, verdict, audit),
    );
    return await run();
  }

  /**
   * Takes the right to collect in one step: of many concurrent polls exactly one gets it.
   *
   * @param publicKey the key that the result has to be for, as an authorized_keys line; absent: any key
   */
  claim(
    id: string,
    { caller, publicKey }: { readonly caller: string; readonly publicKey?: string | undefined },
  ): ClaimOutcome {
    const now = this.#time.now();
    const entry = this.#index.find(id, now);
    if (entry === undefined) return { kind: "unknown" };
    const { approval } = entry;
    if (approval.caller !== caller) return { kind: "not_owner" };
    if (publicKey !== undefined && !isSameKey(publicKey, approval.request.public_key)) {
      return { kind: "wrong_key" };
    }
    if (entry.isClaimed) return { kind: "issuing" };
    if (approval.state.kind === "consumed") return { kind: "consumed" };
    const status = entry.statusAt(now);
    if (status === "approved") return { kind: "claimed", claim: this.#claim(entry, now) };
    if (status !== "expired") return { kind: status };
    const isFirst = !entry.isExpiryReported;
    entry.isExpiryReported = true;
    return { kind: "expired", approval, isFirst };
  }

  /**
   * Resolves when a pending approval is decided or expires, when a claim on it ends, after `ms`, when aborted,
   * or immediately if there is nothing to wait for. Never rejects.
   */
  async waitForDecision(
    id: string,
    { ms, signal }: { readonly ms: number; readonly signal: AbortSignal },
  ): Promise<void> {
    const now = this.#time.now();
    const entry = this.#index.find(id, now);
    if (entry === undefined || !entry.isClaimed && entry.statusAt(now) !== "pending") return;
    const woken = Promise.withResolvers<void>();
    entry.waiters.add(woken.resolve);
    // A held entry does not expire. At exactly the timeout an entry is still valid.
    const left = entry.heldAt === undefined ? entry.decidableUntil + 1 - now : Infinity;
    const { clock } = this.#options;
    await within({ clock, ms: Math.min(ms, left), signal }, woken.promise).catch(() => {});
    entry.waiters.delete(woken.resolve);
  }

  pendingCount(): number {
    this.#sweep();
    return this.#index.pendingTotal;
  }

  /** Ends all waits; the store stays open. */
  async close(): Promise<void> {
    for (const entry of this.#index.entries()) entry.wake();
    await this.#purge(this.#sweep());
  }

  /**
   * Applies the changes of other instances and wakes the waiters. It never reverts a decision that this instance made
   * meanwhile.
   *
   * @param load returns the approvals that are not purgeable, the oldest first
   */
  async takeOver(load: (timing: Timing) => Promise<readonly Approval[]>): Promise<void> {
    const approvals = await load({ now: this.#time.now(), timeoutMs: this.#timeoutMs });
    const now = this.#time.now();
    const changed: Entry[] = [];
    const added = approvals.filter((approval) => {
      const { id, state } = approval;
      if (this.#arriving.has(id)) return false;
      const entry = this.#index.find(id, now);
      if (entry === undefined) return true;
      if (progressOf(approval) <= progressOf(entry.approval)) return false;
      entry.approval = approval;
      if (state.kind === "denied" || state.kind === "consumed") entry.bearerToken = "";
      changed.push(entry);
      return false;
    });
    this.#takeIn(added, now);
    this.#index.part(now);
    for (const entry of changed) {
      if (entry.approval.state.kind !== "pending") this.#index.settle(entry);
      entry.wake();
    }
  }

  #takeIn(approvals: readonly Approval[], now: number): void {
    const entries = approvals.map((approval) => {
      // If the clock was set back, a creation time in the future counts as now.
      const latest = approval.state.kind === "pending" ? approval.createdAt : approval.state.at;
      const skew = Math.min(0, now - latest);
      return new Entry(approval, { bearerToken: "", skew, timeoutMs: this.#timeoutMs });
    });
    for (const entry of entries) {
      if (entry.approval.state.kind === "pending") this.#index.count(entry);
      this.#index.add(entry);
    }
    for (const entry of entries) this.#index.rejoin(entry);
    for (const entry of entries) {
      if (entry.isCounted && entry.lead === undefined) this.#index.regroup(entry, now);
    }
  }

  async #decide(
    entry: Entry,
    entries: readonly Entry[],
    verdict: Verdict,
    audit: Audit,
  ): Promise<DecideOutcome> {
    const attempt = (now: number) => {
      const decided: { readonly each: Entry; readonly approval: Approval }[] = [];
      for (const each of entries) {
        const outcome = decide(each.approval, { ...verdict, ...each.timing(now) });
        if (outcome.kind === "self") return { ...outcome, approval: each.approval };
        if (outcome.kind !== "decided") return outcome;
        decided.push({ each, approval: outcome.approval });
      }
      return decided;
    };
    const first = attempt(this.#time.now());
    if ("kind" in first) return first;
    const audits = await Promise.allSettled(entries.map((each) => audit(each.approval)));
    const failed = audits.find(({ status }) => status === "rejected");
    if (failed?.status === "rejected") throw failed.reason;
    const now = this.#time.now();
    const decided = attempt(now);
    if ("kind" in decided) return decided;
    for (const each of entries) each.heldAt = now;
    try {
      await this.#stored(this.#options.store.updateApproval(...decided.map(({ approval }) => approval)));
      for (const { each, approval } of decided) {
        each.approval = approval;
        if (approval.state.kind === "denied") each.bearerToken = "";
      }
    } finally {
      for (const each of entries) this.#index.release(each, this.#time.now());
    }
    const remaining = this.#index.part(this.#time.now(), new Set(entries.flatMap(({ group }) => group)));
    return { kind: "decided", approval: entry.approval, remaining: remaining.map((each) => each.approval) };
  }

  #claim(entry: Entry, now: number): Claim {
    const { approval, bearerToken } = entry;
    const { state } = approval;
    if (state.kind !== "approved") throw new TypeError("Only an approved request is claimed");
    const { store, logger } = this.#options;
    entry.isClaimed = true;
    entry.heldAt = now;
    let phase: "held" | "consuming" | "over" = "held";
    let isEntered = false;
    let isReleaseWanted = false;
    const end = () => {
      phase = "over";
      if (isEntered) {
        store.releaseCollection?.(approval.id).catch((error) =>
          logger.warn("claim of an approval result not released, it expires by itself", { error })
        );
      }
      entry.isClaimed = false;
      this.#index.release(entry, this.#time.now());
      entry.wake();
    };
    const release = () => {
      // Delay the release: an approval that is released while it is being consumed could be collected twice.
      if (phase === "consuming") isReleaseWanted = true;
      if (phase === "held") end();
    };
    return {
      ...{ approval, release, request: { ...approval.request, bearer_token: bearerToken } },
      enter: async () => {
        try {
          const claimed = store.claimCollection?.(approval.id) ?? Promise.resolve(true);
          return isEntered = await this.#stored(claimed);
        } finally {
          if (!isEntered) release();
        }
      },
      consume: async (audit) => {
        if (phase !== "held") throw new TypeError("A claim is consumed once, and not after its release");
        phase = "consuming";
        try {
          await audit();
          const consumed: Approval = { ...approval, state: { ...state, kind: "consumed" } };
          await this.#stored(store.updateApproval(consumed));
          entry.approval = consumed;
          entry.bearerToken = "";
          isEntered = false;
        } catch (error) {
          phase = "held";
          if (isReleaseWanted) release();
          throw error;
        }
        end();
      },
    };
  }

  /** Applies the expiries and removals that are due, and returns the time. */
  #sweep(): number {
    const now = this.#time.now();
    this.#index.sweep(now);
    const isDue = now >= this.#nextPurgeAt || this.#index.forgotten.length >= PURGE_BATCH;
    if (isDue) void this.#purge(now);
    return now;
  }

  /** Removes forgotten approvals from the store, after earlier purges. Never rejects. */
  #purge(now: number): Promise<void> {
    const { store, clock, logger } = this.#options;
    this.#nextPurgeAt = now + this.#timeoutMs / 4;
    const ids = this.#index.forgotten.splice(0);
    return this.#purges.run(async () => {
      try {
        for (let from = 0; from < ids.length; from += PURGE_BATCH) {
          // Let requests run between two batches.
          if (from > 0) await clock.sleep(0);
          await this.#stored(store.deleteApprovals(ids.slice(from, from + PURGE_BATCH)));
        }
      } catch (error) {
        logger.warn("Cannot remove old approvals from the state store", { error });
      }
    });
  }

  async #stored<T>(change: Promise<T>): Promise<T> {
    try {
      return await change;
    } catch (error) {
      this.#options.onStoreError();
      throw error;
    }
  }
}

/** An approval never goes back to a lower number. */
function progressOf(approval: Approval): number {
  const stage = { pending: 0, denied: 1, approved: 1, consumed: 2 }[approval.state.kind];
  return stage * (MAX_PROOFS + 1) + (stage === 0 ? proofsOf(approval).length : 0);
}
