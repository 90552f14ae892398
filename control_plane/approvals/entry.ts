import { ChangeLock } from "@gateway/shared/state";
import { type Approval, identityOf } from "./approval.ts";

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
