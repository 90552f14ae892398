import { parseEd25519PublicKey } from "@gateway/shared/ssh";
import { within } from "@gateway/shared/clock";
import type { ApprovalRecord } from "@gateway/shared/wire";
import { SteadyTime } from "./steady_time.ts";
import { type Approval, type ApprovalDraft, askerOf, identityOf, withoutToken } from "./approval.ts";
import { type Claim, HeldClaim } from "./claim.ts";
import { Entry, Shelf } from "./shelf.ts";
import type {
  Claimant,
  ClaimOutcome,
  CreateOutcome,
  DecideOutcome,
  RegistryOptions,
  WaitOptions,
} from "./outcomes.ts";
import { toRecord } from "./record.ts";
import { StorePurge } from "./store_purge.ts";
import { consume, decide, type Timing, type Verdict } from "./transitions.ts";

/**
 * The approvals of this control plane: in memory for every answer, in the store for the next start. What is
 * waited for in between (audit, store, signer) never lets two decisions or two collections through: a decision
 * checks again after its audit, and a claim is taken in one step.
 */
export class ApprovalRegistry {
  readonly #options: RegistryOptions;
  readonly #timeoutMs: number;
  readonly #time: SteadyTime;
  readonly #shelf: Shelf;
  readonly #purge: StorePurge;
  /** The ids of those that are being stored. */
  readonly #arriving = new Set<string>();

  private constructor(options: RegistryOptions) {
    this.#options = options;
    this.#timeoutMs = options.timeoutSeconds * 1000;
    this.#time = new SteadyTime(options.clock);
    this.#shelf = new Shelf();
    this.#purge = new StorePurge({
      remove: (ids) => this.#stored(options.store.deleteApprovals(ids)),
      everyMs: this.#timeoutMs / 4,
      clock: options.clock,
      logger: options.logger,
    });
  }

  /** Loads what the store holds; the tokens of end users are gone. */
  static async open(options: RegistryOptions): Promise<ApprovalRegistry> {
    const registry = new ApprovalRegistry(options);
    await registry.#load();
    return registry;
  }

  /**
   * Parks a request until someone decides; durable when the promise resolves.
   *
   * @throws {AppError} `internal` when it could not be stored: there is no approval then
   */
  async create({ bearerToken, ...draft }: ApprovalDraft): Promise<CreateOutcome> {
    const now = this.#sweep();
    const tooMany = this.#shelf.findFullLimit(askerOf(draft), this.#options.maxPendingPerCaller);
    if (tooMany !== undefined) return { kind: "too_many", ...tooMany };
    const lead = this.#shelf.findLead(identityOf(draft), now);
    // What is decided as one expires as one.
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
    const entry = new Entry({
      approval,
      bearerToken,
      skew: lead?.skew ?? now - createdAt,
      timeoutMs: this.#timeoutMs,
    });
    // Before the wait: of many at once no more than the limit get through, and one is the first.
    this.#shelf.count(entry);
    this.#shelf.offerLead(entry, now);
    this.#arriving.add(approval.id);
    const { notifyMs = 0 } = this.#options;
    const keeping = {
      keptUntil: createdAt + 2 * entry.timeoutMs,
      // Also when there is a first, with which this one is decided: it may be decided alone before this one is stored.
      ...(notifyMs > 0 && { notifyUntil: this.#time.onClock(now) + notifyMs }),
    };
    try {
      await this.#stored(this.#options.store.insertApproval(approval, keeping));
    } catch (error) {
      this.#arriving.delete(approval.id);
      this.#shelf.settle(entry);
      throw error;
    }
    this.#shelf.add(entry);
    this.#arriving.delete(approval.id);
    this.#shelf.regroup(entry, this.#time.now());
    const hasJoined = entry.lead !== undefined;
    return { kind: "parked", approval, hasJoined, ...keeping };
  }

  /** All that are known, pending ones first, then the newest first; of those decided as one, the first alone. */
  list(): readonly Approval[] {
    const now = this.#sweep();
    const pending: Approval[] = [];
    const others: Approval[] = [];
    for (const entry of this.#shelf.entries()) {
      if (entry.lead !== undefined) continue;
      (this.#shelf.statusOf(entry, now) === "pending" ? pending : others).push(entry.approval);
    }
    return [...newestFirst(pending), ...newestFirst(others)];
  }

  /** The approval of an id; `undefined` when there is none, or it has been forgotten. */
  find(id: string): Approval | undefined {
    return this.#shelf.find(id, this.#time.now())?.approval;
  }

  /** Likewise, unless it is decided with another, the first of them. */
  findFirst(id: string): Approval | undefined {
    const entry = this.#shelf.find(id, this.#time.now());
    return entry?.lead === undefined ? entry?.approval : undefined;
  }

  /** An approval as approvers see it at this moment. */
  describe(approval: Approval): ApprovalRecord {
    const now = this.#time.now();
    const entry = this.#shelf.find(approval.id, now);
    const time = entry?.timeAt(now) ?? this.#time.onClock(now);
    const others = entry?.group.filter((each) => each !== entry).map((each) => each.approval) ?? [];
    return toRecord(approval, { now: time, timeoutMs: approval.timeoutMs ?? this.#timeoutMs }, others);
  }

  /**
   * Decides one request, once, and those identical requests that the verdict says were shown with it. The audit of each
   * comes before any effect, and when one rejects nothing has changed. A decision that comes second, or too late once
   * it is audited, has no effect either. Identical requests that were not shown stay pending.
   *
   * @throws {AppError} `internal` when it could not be stored: nothing has changed; and what `audit` throws
   */
  async decide(
    id: string,
    verdict: Verdict,
    audit: (approval: Approval) => Promise<void>,
  ): Promise<DecideOutcome> {
    const entry = this.#shelf.find(id, this.#time.now());
    if (entry === undefined) return { kind: "unknown" };
    const entries = [entry];
    for (const shown of new Set(verdict.shown).difference(new Set([id]))) {
      const other = this.#shelf.find(shown, this.#time.now());
      if (other?.identity !== entry.identity) return { kind: "not_identical", id: shown };
      entries.push(other);
    }
    // Decisions that overlap wait for each other, and in one order, so that none waits for ever.
    const run = entries.toSorted((a, b) => a.approval.id < b.approval.id ? -1 : 1).reduce(
      (inner, each) => () => each.decisions.run(inner),
      () => this.#decide(entries, verdict, audit),
    );
    return await run();
  }

  /** Takes the right to collect, in one step: of many polls at once exactly one gets it. */
  claim(id: string, { caller, publicKey }: Claimant): ClaimOutcome {
    const now = this.#time.now();
    const entry = this.#shelf.find(id, now);
    if (entry === undefined) return { kind: "unknown" };
    const { approval } = entry;
    if (approval.caller !== caller) return { kind: "not_owner" };
    if (publicKey !== undefined && !isSameKey(publicKey, approval.request.public_key)) {
      return { kind: "wrong_key" };
    }
    if (entry.isClaimed) return { kind: "issuing" };
    if (approval.state.kind === "consumed") return { kind: "consumed" };
    const status = this.#shelf.statusOf(entry, now);
    switch (status) {
      case "approved":
        return { kind: "claimed", claim: this.#claim(entry, now) };
      case "expired": {
        const isFirst = !entry.isExpiryTold;
        entry.isExpiryTold = true;
        return { kind: "expired", approval, isFirst };
      }
      default:
        return { kind: status };
    }
  }

  /**
   * Resolves when a pending approval is decided or expires, when a claim on it ends, after `ms`, when aborted,
   * or at once when there is nothing to wait for. Never rejects.
   */
  async waitForDecision(id: string, { ms, signal }: WaitOptions): Promise<void> {
    const now = this.#time.now();
    const entry = this.#shelf.find(id, now);
    if (entry === undefined) return;
    if (!entry.isClaimed && this.#shelf.statusOf(entry, now) !== "pending") return;
    const woken = Promise.withResolvers<void>();
    entry.addWaiter(woken.resolve);
    // What is held does not expire; at the timeout itself it is still valid.
    const left = entry.isHeld ? Infinity : entry.decidableUntil + 1 - now;
    const { clock } = this.#options;
    await within({ clock, ms: Math.min(ms, left), signal }, woken.promise).catch(() => {});
    entry.removeWaiter(woken.resolve);
  }

  /** How many wait for a decision. */
  pendingCount(): number {
    this.#sweep();
    return this.#shelf.pendingTotal;
  }

  /** Ends the waits there are; the store stays open, and nothing is left to do in it. */
  async close(): Promise<void> {
    for (const entry of this.#shelf.entries()) entry.wake();
    const now = this.#sweep();
    this.#purge.run(this.#shelf.takeForgotten(), now);
    await this.#purge.ended();
  }

  async #load(): Promise<void> {
    const now = this.#time.now();
    const approvals = await this.#options.store.loadApprovals({ now, timeoutMs: this.#timeoutMs });
    this.#takeIn(approvals, now);
    this.#sweep();
  }

  /**
   * Takes over what other instances have parked, decided and collected; who waits for it is woken. Nothing goes back: what
   * was decided here meanwhile stays so.
   *
   * @param load gives the approvals that are not purgeable, the oldest first
   */
  async takeOver(load: (timing: Timing) => Promise<readonly Approval[]>): Promise<void> {
    const approvals = await load({ now: this.#time.now(), timeoutMs: this.#timeoutMs });
    const now = this.#time.now();
    const changed: Entry[] = [];
    const added = approvals.filter((approval) => {
      const { id, state } = approval;
      if (this.#arriving.has(id)) return false;
      const entry = this.#shelf.find(id, now);
      if (entry === undefined) return true;
      if (PROGRESS[state.kind] <= PROGRESS[entry.approval.state.kind]) return false;
      entry.approval = approval;
      if (state.kind !== "approved") entry.bearerToken = "";
      changed.push(entry);
      return false;
    });
    this.#takeIn(added, now);
    this.#shelf.part(now);
    for (const entry of changed) {
      this.#shelf.settle(entry);
      entry.wake();
    }
  }

  #takeIn(approvals: readonly Approval[], now: number): void {
    const entries = approvals.map((approval) => {
      // The clock was set back while the process was down: from the future is as from now, not valid for longer.
      const latest = approval.state.kind === "pending" ? approval.createdAt : approval.state.at;
      const skew = Math.min(0, now - latest);
      return new Entry({ approval, bearerToken: "", skew, timeoutMs: this.#timeoutMs });
    });
    for (const entry of entries) {
      if (entry.approval.state.kind === "pending") this.#shelf.count(entry);
      this.#shelf.add(entry);
    }
    for (const entry of entries) this.#shelf.rejoin(entry);
    for (const entry of entries) {
      if (entry.isCounted && entry.lead === undefined) this.#shelf.regroup(entry, now);
    }
  }

  async #decide(
    entries: readonly Entry[],
    verdict: Verdict,
    audit: (approval: Approval) => Promise<void>,
  ): Promise<DecideOutcome> {
    const attempt = (each: Entry, now: number) =>
      decide(each.approval, { ...verdict, ...this.#shelf.timing(each, now) });
    for (const each of entries) {
      const first = attempt(each, this.#time.now());
      if (first.kind === "self") return { kind: "self", approval: each.approval };
      if (first.kind === "not_pending") return first;
    }
    await allOrFirstError(entries.map((each) => audit(each.approval)));
    const now = this.#time.now();
    const decided: { readonly each: Entry; readonly approval: Approval }[] = [];
    for (const each of entries) {
      const outcome = attempt(each, now);
      if (outcome.kind !== "decided") {
        return { kind: "not_pending", status: this.#shelf.statusOf(each, now) };
      }
      decided.push({ each, approval: outcome.approval });
    }
    for (const { each } of decided) each.hold(now);
    try {
      await this.#stored(this.#options.store.updateApproval(...decided.map(({ approval }) => approval)));
      for (const { each, approval } of decided) {
        each.approval = approval;
        if (approval.state.kind === "denied") each.bearerToken = "";
      }
    } finally {
      for (const { each } of decided) this.#shelf.letGo(each, this.#time.now());
    }
    const remaining = this.#shelf.part(this.#time.now(), new Set(entries.flatMap(({ group }) => group)));
    const [approval] = decided.map(({ each }) => each.approval);
    if (approval === undefined) throw new TypeError("A decision is about at least one request");
    return { kind: "decided", approval, remaining: remaining.map((each) => each.approval) };
  }

  #claim(entry: Entry, now: number): Claim {
    const { approval, bearerToken } = entry;
    entry.isClaimed = true;
    entry.hold(now);
    const { store, logger } = this.#options;
    let isEntered = false;
    return new HeldClaim({
      approval,
      request: { ...approval.request, bearer_token: bearerToken },
      enter: async () => {
        return isEntered = await this.#stored(store.claimCollection?.(approval.id) ?? Promise.resolve(true));
      },
      store: async () => {
        const consumed = consume(approval);
        if (consumed === undefined) throw new TypeError("Only what is approved is claimed");
        await this.#stored(this.#options.store.updateApproval(consumed));
        entry.approval = consumed;
        entry.bearerToken = "";
        isEntered = false;
      },
      onEnd: () => {
        if (isEntered) {
          store.releaseCollection?.(approval.id).catch((error) =>
            logger.warn("collection claim not released, it expires by itself", { error })
          );
        }
        entry.isClaimed = false;
        this.#shelf.letGo(entry, this.#time.now());
        entry.wake();
      },
    });
  }

  /** Does what time alone brings about; gives the time. */
  #sweep(): number {
    const now = this.#time.now();
    this.#shelf.sweep(now);
    if (this.#purge.isDue(now, this.#shelf.forgottenTotal)) this.#purge.run(this.#shelf.takeForgotten(), now);
    return now;
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

/** How far an approval has come. */
const PROGRESS = { pending: 0, denied: 1, approved: 1, consumed: 2 } as const;

/** Waits for all of them, and then throws what the first one that failed has thrown. */
async function allOrFirstError(steps: readonly Promise<void>[]): Promise<void> {
  const failed = (await Promise.allSettled(steps)).find((each) => each.status === "rejected");
  if (failed !== undefined) throw failed.reason;
}

function newestFirst(approvals: Approval[]): readonly Approval[] {
  return approvals.reverse().sort((a, b) => b.createdAt - a.createdAt);
}

/** Whether two authorized_keys lines hold the same Ed25519 key, whatever their comments; false when one holds none. */
export function isSameKey(a: string, b: string): boolean {
  try {
    const [left, right] = [parseEd25519PublicKey(a), parseEd25519PublicKey(b)];
    return left.every((byte, index) => byte === right[index]);
  } catch {
    return false;
  }
}
