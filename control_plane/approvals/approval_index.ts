import { ChangeLock } from "@gateway/shared/state";
import type { ApprovalStatus } from "@gateway/shared/wire";
import {
  type Approval,
  type ApprovalState,
  identityOf,
  isPurgeable,
  statusOf,
  type Timing,
} from "./approval.ts";

/** A decision names each request of a group, and its body is bounded. */
const MOST_FOLLOWERS = 99;

/** One end user may have a quarter of a broker's limit, so that they cannot lock the others out. */
const SHARES = 4;

/** The key of all pending approvals. Other keys are JSON lists. */
const ALL = "";

/** The entries of a registry, by ID and by their ends, and the count of the pending ones. */
export class ApprovalIndex {
  /** The IDs of forgotten entries that the store may still have. */
  readonly forgotten: string[] = [];
  readonly #byId = new Map<string, Entry>();
  /** Pending entries that identical requests can join, by identity. */
  readonly #leads = new Map<string, Entry>();
  readonly #undecided = new ExpiryQueue<Entry>((entry) => entry.decidableUntil);
  readonly #known = new ExpiryQueue<Entry>((entry) => entry.decidableUntil + entry.timeoutMs);
  /** The number of pending approvals: all, of each caller, and of each end user of a caller. */
  readonly #pending = new Map<string, number>();

  get pendingTotal(): number {
    return this.#pending.get(ALL) ?? 0;
  }

  /** The limit that one more request would exceed: that of its broker, or of the broker's end user. */
  findFullLimit({ caller, request: { end_user } }: Pick<Approval, "caller" | "request">, max: number) {
    const pendingOf = (...names: readonly string[]) => this.#pending.get(JSON.stringify(names)) ?? 0;
    if (pendingOf(caller) >= max) return { limit: max, of: "caller" as const };
    const share = Math.ceil(max / SHARES);
    const isFull = end_user !== "" && pendingOf(caller, end_user) >= share;
    return isFull ? { limit: share, of: "end user" as const } : undefined;
  }

  entries(): Iterable<Entry> {
    return this.#byId.values();
  }

  /** The entry of an ID, unless it is due for removal. */
  find(id: string, now: number): Entry | undefined {
    const entry = this.#byId.get(id);
    return entry?.isPurgeable(now) === false ? entry : undefined;
  }

  /** Counts an entry as pending, even before it is added. */
  count(entry: Entry): void {
    entry.isCounted = true;
    this.#change(entry, 1);
  }

  /** The entry that an identical request can join. The store may not contain the entry yet. */
  findLead(identity: string, now: number): Entry | undefined {
    const lead = this.#leads.get(identity);
    return lead !== undefined && mayLead(lead, now) ? lead : undefined;
  }

  /** Lets identical requests join this entry, unless another entry leads already. */
  offerLead(entry: Entry, now: number): void {
    if (this.findLead(entry.identity, now) === undefined) this.#leads.set(entry.identity, entry);
  }

  /**
   * Joins an entry that was loaded from the store to its former group, if it is still identical to the group
   * and in the same state.
   */
  rejoin(entry: Entry): void {
    const lead = this.#byId.get(entry.approval.lead ?? "");
    if (lead === undefined || lead === entry || lead.lead !== undefined) return;
    const isAlike = lead.identity === entry.identity &&
      isDecidedAlike(lead.approval.state, entry.approval.state);
    if (isAlike) entry.follow(lead);
  }

  /**
   * Separates requests of a group if one was decided without the other, and regroups the pending ones.
   *
   * @returns the requests that now lead a group
   */
  part(now: number, entries: Iterable<Entry> = this.#byId.values()): readonly Entry[] {
    const firsts: Entry[] = [];
    for (const entry of entries) {
      const { lead } = entry;
      if (lead === undefined || isDecidedAlike(lead.approval.state, entry.approval.state)) continue;
      lead.followers.splice(lead.followers.indexOf(entry), 1);
      entry.lead = undefined;
      if (!entry.isCounted) continue;
      this.regroup(entry, now);
      if (entry.lead === undefined) firsts.push(entry);
    }
    return firsts;
  }

  /** Joins a request to an identical one that expires at the same time; otherwise the request may lead. */
  regroup(entry: Entry, now: number): void {
    const lead = this.findLead(entry.identity, now);
    const isJoinable = lead !== undefined && lead !== entry && lead.decidableUntil === entry.decidableUntil &&
      this.#byId.get(lead.approval.id) === lead;
    if (isJoinable) entry.follow(lead);
    else this.offerLead(entry, now);
  }

  /** Stops counting an entry as pending, and wakes its waiters. */
  settle(entry: Entry): void {
    if (!entry.isCounted) return;
    entry.isCounted = false;
    this.#change(entry, -1);
    if (this.#leads.get(entry.identity) === entry) this.#leads.delete(entry.identity);
    entry.wake();
  }

  add(entry: Entry): void {
    this.#byId.set(entry.approval.id, entry);
    this.#known.add(entry);
    if (entry.isCounted) this.#undecided.add(entry);
  }

  /** Ends the hold of an entry, and then applies an expiry or removal that became due during the hold. */
  release(entry: Entry, now: number): void {
    entry.heldAt = undefined;
    if (entry.statusAt(now) !== "pending") this.settle(entry);
    if (entry.isPurgeable(now)) this.#forget(entry);
  }

  /** Settles expired entries and forgets old ones, each entry once. */
  sweep(now: number): void {
    for (const entry of this.#undecided.takeEndedBefore(now)) {
      if (entry.heldAt === undefined) this.settle(entry);
    }
    for (const entry of this.#known.takeEndedBefore(now)) {
      if (entry.heldAt === undefined) this.#forget(entry);
    }
  }

  #forget({ approval: { id } }: Entry): void {
    if (this.#byId.delete(id)) this.forgotten.push(id);
  }

  #change({ approval: { caller, request } }: Entry, by: 1 | -1): void {
    for (const key of [ALL, JSON.stringify([caller]), JSON.stringify([caller, request.end_user])]) {
      const count = (this.#pending.get(key) ?? 0) + by;
      // Remove a count of 0, because the names of past end users would otherwise accumulate.
      if (count > 0) this.#pending.set(key, count);
      else this.#pending.delete(key);
    }
  }
}

function mayLead(lead: Entry, now: number): boolean {
  return lead.isCounted && lead.followers.length < MOST_FOLLOWERS && lead.statusAt(now) === "pending";
}

/** True if both are pending, or if one decision decided both, collected or not. */
function isDecidedAlike(left: ApprovalState, right: ApprovalState): boolean {
  if (left.kind === "pending" || right.kind === "pending") return left.kind === right.kind;
  return (left.kind === "denied") === (right.kind === "denied") && left.by === right.by &&
    left.at === right.at;
}

/** A queue of items in the order of their end times. Taking the ended items does not scan the others. */
export class ExpiryQueue<T> {
  readonly #endOf: (item: T) => number;
  readonly #items: { readonly item: T; readonly end: number }[] = [];

  /** @param endOf stays the same for an item */
  constructor(endOf: (item: T) => number) {
    this.#endOf = endOf;
  }

  add(item: T): void {
    const end = this.#endOf(item);
    // Search from the end, because most items end after all earlier items.
    this.#items.splice(this.#items.findLastIndex((each) => each.end <= end) + 1, 0, { item, end });
  }

  /** Takes the items that have ended before a time, in the order of their ends. */
  *takeEndedBefore(time: number): Generator<T> {
    for (let [first] = this.#items; first !== undefined && first.end < time; [first] = this.#items) {
      this.#items.shift();
      yield first.item;
    }
  }
}

/** One approval in the registry, with the state that exists only in this process. */
export class Entry {
  /** The approval as the store contains it. */
  approval: Approval;
  /** The end user's token. Cleared as soon as no signing can need it. */
  bearerToken: string;
  /** True while it counts as pending. */
  isCounted = false;
  /** True while a poll collects it. */
  isClaimed = false;
  /** True after a poll has received the expiry. */
  isExpiryReported = false;
  /** Equal for requests that can be decided together. */
  readonly identity: string;
  /** The entry that this one is decided with. */
  lead: Entry | undefined;
  readonly followers: Entry[] = [];
  readonly decisions: ChangeLock = new ChangeLock();
  readonly timeoutMs: number;
  /**
   * The time at which a running change paused the expiry of this entry. Therefore a decision or claim that
   * began in time cannot expire or be purged before it ends, and no reader sees the request first expired and
   * then approved.
   */
  heldAt: number | undefined;
  readonly waiters: Set<() => void> = new Set();
  readonly skew: number;

  /** @param own with `skew`, how far the registry's time was ahead of the clock of the approval's times */
  constructor(
    approval: Approval,
    own: { readonly bearerToken: string; readonly skew: number; readonly timeoutMs: number },
  ) {
    this.approval = approval;
    this.bearerToken = own.bearerToken;
    this.skew = own.skew;
    this.timeoutMs = approval.timeoutMs ?? own.timeoutMs;
    this.identity = identityOf(approval);
  }

  /** The last moment of a decision, by the registry's time. */
  get decidableUntil(): number {
    return this.approval.createdAt + this.skew + this.timeoutMs;
  }

  /** All entries that are decided together, the first one first. */
  get group(): readonly Entry[] {
    const first = this.lead ?? this;
    return [first, ...first.followers];
  }

  /** The timing by the clock of the approval's own times. */
  timing(now: number): Timing {
    return { now: (this.heldAt ?? now) - this.skew, timeoutMs: this.timeoutMs };
  }

  statusAt(now: number): ApprovalStatus {
    return statusOf(this.approval, this.timing(now));
  }

  isPurgeable(now: number): boolean {
    return isPurgeable(this.approval, this.timing(now));
  }

  follow(lead: Entry): void {
    this.lead = lead;
    lead.followers.push(this);
  }

  /** Calls each waiter once. */
  wake(): void {
    for (const wake of this.waiters) wake();
    this.waiters.clear();
  }
}
