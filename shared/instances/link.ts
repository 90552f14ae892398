/**
 * What the instances of a service that share a database tell each other by it.
 *
 * @module
 */
import type { Clock } from "../clock.ts";
import type { Query } from "../state/postgres_access.ts";

/** How often something was changed: numbers that only grow. */
export interface Epochs {
  /** What is decided by. */
  readonly state: bigint;
  /** Certificates that were issued; nothing of a control plane. */
  readonly certificates: bigint;
}

/** The time of the database, as an instance knows it between its looks. */
export interface InstanceClock extends Clock {
  /** By how much this machine's clock is certainly ahead of it, or behind it: negative. In milliseconds. */
  readonly offset: number;
}

/** Who an instance is; `session` is new with each start and each return. */
export interface InstanceIdentity {
  /** As in its config. */
  readonly name: string;
  /** An id that nobody has had before. */
  readonly session: string;
}

/** Another instance, as it was at its last beat. */
export interface OtherInstance extends InstanceIdentity {
  /** Grows with each beat. */
  readonly beat: bigint;
  /** Decides by everything up to this epoch. */
  readonly seen: bigint;
}

/** Who has seen what. All of it was so at one moment after it was asked for. */
export interface Seen extends Epochs {
  /** All that are entered but this one. */
  readonly others: readonly OtherInstance[];
}

/** What a beat learns. */
export interface Beat extends Seen {
  /** False: others take this instance for gone, and no longer wait for it. */
  readonly isMember: boolean;
  /** The oldest version of the tables whose programs may use them. */
  readonly schema: number;
  /** What the database's clock showed; milliseconds since the epoch. */
  readonly now: number;
}

/** A connection of one instance to the others. Each call rejects where it is lost or takes too long. */
export interface InstanceLink {
  /** Which server it is to, for the operator. */
  readonly server: string;
  /**
   * Says that the instance lives, and by what it decides; those who wait for that hear of it where it is another state
   * than at the last beat. It is committed as durably as any change.
   */
  beat(self: InstanceIdentity, seen: bigint): Promise<Beat>;
  /** Who has seen what. It says nothing of whether what this instance decides by still holds. */
  look(self: InstanceIdentity): Promise<Seen>;
  /**
   * Reads at one moment, from the server that the beats are of: what it holds is in force, if a later beat succeeds.
   */
  read<T>(action: (query: Query) => Promise<T>): Promise<T>;
  /** Enters a name that nobody has. */
  enter(self: InstanceIdentity, version: string): Promise<boolean>;
  /** Those that are entered. */
  list(): Promise<readonly OtherInstance[]>;
  /** Takes an instance off the list, unless it has beaten since. */
  evict(silent: OtherInstance): Promise<void>;
  /** At once, whatever is under way. */
  close(): void;
}

/** What wakes an instance: the state has changed, or another instance decides by a change. */
export type News = "change" | "seen";

/** What instances share, as far as they know of each other by it. */
export interface Shared {
  /** The version of the tables that this program knows. */
  readonly schema: number;
  /**
   * A connection of its own.
   *
   * @param onNews told of what others do; it may also get lost
   */
  connect(onNews: (news: News) => void): Promise<InstanceLink>;
}
