import type { ApprovalStatus } from "@gateway/shared/wire";
import { type Approval, type ApprovalState, askerOf, identityOf, statusOf } from "./approval.ts";
import { type Asker, type FullLimit, PendingCount } from "./pending_count.ts";
import { isPurgeable, type Timing } from "./transitions.ts";
import { ChangeLock } from "@gateway/shared/state";

/** A decision names each request of a group, and its body is bounded. */
const MOST_FOLLOWERS = 99;

/**
 * The entries of a registry: by id, by their ends, and the count of the pending ones. Times are those of the
 * registry's clock. Nothing here looks at every entry but {@linkcode Shelf.entries}.
 */
export class Shelf {
  readonly #byId = new Map<string, Entry>();
  /** Pending ones that identical requests can be decided with, by their identity. */
  readonly #leads = new Map<string, Entry>();
  /** Those that may still be pending, and those that may still be known. */
  readonly #undecided = new EndQueue<Entry>((entry) => entry.decidableUntil);
  readonly #known = new EndQueue<Entry>((entry) => entry.knownUntil);
  readonly #pending = new PendingCount();
  #forgotten: string[] = [];

  get pendingTotal(): number {
    return this.#pending.total;
  }

  /** The limit that one more request of somebody would exceed. */
  findFullLimit(asker: Asker, maxPerCaller: number): FullLimit | undefined {
    return this.#pending.findFullLimit(asker, maxPerCaller);
  }

  entries(): Iterable<Entry> {
    return this.#byId.values();
  }

  /** The entry of an id, unless it is to be forgotten. */
  find(id: string, now: number): Entry | undefined {
    const entry = this.#byId.get(id);
    return entry === undefined || isPurgeable(entry.approval, this.timing(entry, now)) ? undefined : entry;
  }

  statusOf(entry: Entry, now: number): ApprovalStatus {
    return statusOf(entry.approval, entry.timeAt(now), entry.timeoutMs);
  }

  timing(entry: Entry, now: number): Timing {
    return { now: entry.timeAt(now), timeoutMs: entry.timeoutMs };
  }

  /** Counts an entry as pending, also before it is added. */
  count(entry: Entry): void {
    entry.isCounted = true;
    this.#pending.add(askerOf(entry.approval));
  }

  /** What an identical request could be decided with: it may still be on its way into the store. */
  findLead(identity: string, now: number): Entry | undefined {
    const lead = this.#leads.get(identity);
    return lead !== undefined && this.#mayLead(lead, now) ? lead : undefined;
  }

  /** Lets identical requests be decided with this one, unless there is another such. */
  offerLead(entry: Entry, now: number): void {
    if (this.findLead(entry.identity, now) === undefined) this.#leads.set(entry.identity, entry);
  }

  #join(entry: Entry, lead: Entry, now: number): boolean {
    if (this.#byId.get(lead.approval.id) !== lead || !this.#mayLead(lead, now)) return false;
    entry.lead = lead;
    lead.followers.push(entry);
    return true;
  }

  /** Has a request that was loaded decided with the one that it was decided with before: the two are still alike. */
  rejoin(entry: Entry): void {
    const lead = this.#byId.get(entry.approval.lead ?? "");
    if (lead === undefined || lead === entry || lead.lead !== undefined) return;
    if (lead.identity !== entry.identity || !isDecidedAlike(lead.approval.state, entry.approval.state)) {
      return;
    }
    entry.lead = lead;
    lead.followers.push(entry);
  }

  /**
   * Parts requests of which one was decided without the other; those that still wait form a group again.
   *
   * @returns the requests that have become the first of a group
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

  /** Lets a request be decided with an identical one that expires at the same time, or else lets others join it. */
  regroup(entry: Entry, now: number): void {
    const lead = this.findLead(entry.identity, now);
    const isAlike = lead !== entry && lead?.decidableUntil === entry.decidableUntil;
    if (!isAlike || !this.#join(entry, lead, now)) this.offerLead(entry, now);
  }

  #mayLead(lead: Entry, now: number): boolean {
    return lead.isCounted && lead.followers.length < MOST_FOLLOWERS && this.statusOf(lead, now) === "pending";
  }

  /** Counts an entry off, because it is not pending any more; whoever waits for that is told. */
  settle(entry: Entry): void {
    if (!entry.isCounted) return;
    entry.isCounted = false;
    this.#pending.remove(askerOf(entry.approval));
    if (this.#leads.get(entry.identity) === entry) this.#leads.delete(entry.identity);
    entry.wake();
  }

  add(entry: Entry): void {
    this.#byId.set(entry.approval.id, entry);
    this.#known.add(entry);
    if (entry.isCounted) this.#undecided.add(entry);
  }

  /** Moves the time of an entry forward, and does what was due meanwhile. */
  letGo(entry: Entry, now: number): void {
    entry.letGo();
    if (this.statusOf(entry, now) !== "pending") this.settle(entry);
    if (isPurgeable(entry.approval, this.timing(entry, now))) this.#forget(entry);
  }

  /** Counts off what has expired and forgets what is old, each entry once. */
  sweep(now: number): void {
    for (const entry of this.#undecided.takeEndedBefore(now)) {
      if (!entry.isHeld) this.settle(entry);
    }
    for (const entry of this.#known.takeEndedBefore(now)) {
      if (!entry.isHeld) this.#forget(entry);
    }
  }

  /** The ids of those that were forgotten since the last time. */
  takeForgotten(): readonly string[] {
    const ids = this.#forgotten;
    this.#forgotten = [];
    return ids;
  }

  /** How many were forgotten since the last time. */
  get forgottenTotal(): number {
    return this.#forgotten.length;
  }

  #forget({ approval: { id } }: Entry): void {
    if (this.#byId.delete(id)) this.#forgotten.push(id);
  }
}

/** Whether neither is decided, or both by the same decision, whoever has collected what came of it. */
function isDecidedAlike(left: ApprovalState, right: ApprovalState): boolean {
  if (left.kind === "pending" || right.kind === "pending") return left.kind === right.kind;
  return (left.kind === "denied") === (right.kind === "denied") && left.by === right.by &&
    left.at === right.at;
}

/** A queue in the order of ends: to take what has ended is as cheap with ten thousand in it as with ten. */
export class EndQueue<T> {
  readonly #endOf: (item: T) => number;
  #items: { readonly item: T; readonly end: number }[] = [];
  #taken = 0;

  /** @param endOf stays the same for an item */
  constructor(endOf: (item: T) => number) {
    this.#endOf = endOf;
  }

  /** Adds an item in its place, behind those of the same end. */
  add(item: T): void {
    const end = this.#endOf(item);
    let [from, to] = [this.#taken, this.#items.length];
    while (from < to) {
      const middle = (from + to) >>> 1;
      if ((this.#items[middle]?.end ?? Infinity) > end) to = middle;
      else from = middle + 1;
    }
    this.#items.splice(from, 0, { item, end });
  }

  /** Takes those that have ended before this time, the first of them first. */
  *takeEndedBefore(time: number): Generator<T> {
    for (let first = this.#items[this.#taken]; first !== undefined && first.end < time;) {
      this.#drop();
      yield first.item;
      first = this.#items[this.#taken];
    }
  }

  #drop(): void {
    this.#taken += 1;
    // Half of it is behind us: to move the other half costs as much as was taken since the last time.
    if (this.#taken * 2 < this.#items.length) return;
    this.#items = this.#items.slice(this.#taken);
    this.#taken = 0;
  }
}

/** What an {@linkcode Entry} is made of. */
interface EntryOptions {
  readonly approval: Approval;
  readonly bearerToken: string;
  /** How far the registry's clock was ahead of the one that the approval's times are of, in milliseconds. */
  readonly skew: number;
  /** How long it waits where the approval does not say it. */
  readonly timeoutMs: number;
}

/** One approval in the registry, with what lives only as long as the process. */
export class Entry {
  /** As it is in the store. */
  approval: Approval;
  /** Empty once it can't be needed any more. */
  bearerToken: string;
  /** Whether it is among the pending ones. */
  isCounted = false;
  /** Whether a poll is collecting it. */
  isClaimed = false;
  /** Whether a poll was told that it has expired. */
  isExpiryTold = false;
  /** The same for every request that can be decided with this one. */
  readonly identity: string;
  /** The one that it is decided with; `undefined`: it is the first of its kind, or alone. */
  lead: Entry | undefined;
  /** Those that are decided with it, the oldest first. */
  readonly followers: Entry[] = [];
  /** Held by one decision at a time. */
  readonly decisions: ChangeLock = new ChangeLock();
  /** How far the registry's clock was ahead of the one that the approval's times are of, in milliseconds. */
  readonly skew: number;
  /** How long it waits for its decision, and a decision for its collection. */
  readonly timeoutMs: number;
  #heldAt: number | undefined;
  readonly #waiters = new Set<() => void>();

  constructor({ approval, bearerToken, skew, timeoutMs }: EntryOptions) {
    this.approval = approval;
    this.bearerToken = bearerToken;
    this.skew = skew;
    this.timeoutMs = approval.timeoutMs ?? timeoutMs;
    this.identity = identityOf(approval);
  }

  /** The last moment at which it can be decided, by the registry's clock. */
  get decidableUntil(): number {
    return this.approval.createdAt + this.skew + this.timeoutMs;
  }

  /** The last moment at which it is known, by the registry's clock. */
  get knownUntil(): number {
    return this.decidableUntil + this.timeoutMs;
  }

  /** All that are decided with it, itself included, the first of them first. */
  get group(): readonly Entry[] {
    const first = this.lead ?? this;
    return [first, ...first.followers];
  }

  /** Whether a change to it is on its way. */
  get isHeld(): boolean {
    return this.#heldAt !== undefined;
  }

  /** The time that counts for it, by the clock of its own times. */
  timeAt(now: number): number {
    return (this.#heldAt ?? now) - this.skew;
  }

  /**
   * Stops its time while a change to it is on its way: what was decided or claimed in time neither expires nor
   * is purged before that is done, and nobody sees it expired and then approved.
   */
  hold(now: number): void {
    this.#heldAt = now;
  }

  /** Moves its time forward to the time of all entries. */
  letGo(): void {
    this.#heldAt = undefined;
  }

  /** Calls back, once, when something has become of it. */
  addWaiter(wake: () => void): void {
    this.#waiters.add(wake);
  }

  removeWaiter(wake: () => void): void {
    this.#waiters.delete(wake);
  }

  wake(): void {
    for (const wake of this.#waiters) wake();
    this.#waiters.clear();
  }
}
