import type { ApprovalStatus } from "@gateway/shared/wire";
import { type ApprovalState, askerOf, statusOf } from "./approval.ts";
import { EndQueue } from "./end_queue.ts";
import type { Entry } from "./entry.ts";
import { type Asker, type FullLimit, PendingCount } from "./pending_count.ts";
import { isPurgeable, type Timing } from "./transitions.ts";

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
