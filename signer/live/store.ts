/**
 * State that survives a restart: runtime grants, learned waivers, freezes, certificates, revocations and leases. Decisions
 * are made from memory and never wait for the store.
 *
 * @module
 */
import type { Epochs, InstanceLink, Shared } from "@gateway/shared/instances";
import type { Freeze } from "./freezes.ts";
import type { Grant } from "@gateway/shared/policy";
import type { IssuedBatch } from "./krl/issued.ts";
import type { KeptRevocation } from "./krl/revocations.ts";
import type { Lease } from "./lease.ts";
import type { FreezeSubject } from "@gateway/shared/wire";

/** What an instance takes over from others, as it was at one moment. */
export interface SharedContent {
  readonly epochs: Epochs;
  /** Those that other instances have issued since. */
  readonly certificates: readonly IssuedBatch[];
  /** Absent where nothing of it was changed since: its epoch is the one that is known. */
  readonly state?: SharedDecisions;
}

/** What all instances decide by, whole. */
export interface SharedDecisions {
  readonly freezes: readonly Freeze[];
  readonly grants: readonly Grant[];
  readonly revocations: readonly KeptRevocation[];
  readonly krlVersion: number;
  /** The newest version of the hosts that are in the database; absent: there is none. */
  readonly policy?: StoredPolicy;
  /** What may become the next version; absent: nothing is proposed. */
  readonly proposal?: StoredDocument;
}

/** The newest version of the hosts. */
export interface StoredPolicy extends StoredDocument {
  readonly version: number;
}

/** Hosts, as the database has them. */
export interface StoredDocument {
  /** SHA-256 of the document, as it was written with it; lower-case hex. */
  readonly sha256: string;
  /** JSON; absent when the reader has the document of this SHA-256 already. */
  readonly document?: string;
}

/** What is told of a version of the hosts without them. */
export interface PolicyChange {
  readonly version: number;
  /** The CN of whoever made it. */
  readonly madeBy: string;
  /** What was done, such as `import`. */
  readonly change: string;
  /** Milliseconds since the epoch, in whole seconds. */
  readonly madeAt: number;
}

/** The versions of the hosts that several signers share: none is ever changed or removed. */
export interface PolicyVersions {
  list(): Promise<readonly PolicyChange[]>;
  /** One of them, whole; `undefined` when there is none of this number. */
  find(version: number): Promise<(PolicyChange & { readonly document: string }) | undefined>;
  /**
   * Adds the version after `base`, the first where there is none; false when `base` is not the newest.
   *
   * @throws {AppError} `internal` when it was not kept, `state_stale` when that is not certain
   */
  add(
    next: Omit<PolicyChange, "version"> & {
      readonly document: string;
      readonly base: Pick<StoredPolicy, "version" | "sha256"> | undefined;
    },
  ): Promise<boolean>;
  /**
   * Shows all instances what may become the next version, in the place of what was shown before, so that they compile
   * it while the newest version is in force. Nothing is decided by it.
   */
  propose(document: string): Promise<void>;
  /** This instance has done what it can to put a proposal in force quickly. */
  announcePrepared(sha256: string): Promise<void>;
  /** Whether the others wait for nothing but the version: `replaced` where another proposal came after it. */
  findPrepared(sha256: string): Promise<"all" | "some" | "replaced">;
}

/** A store that several instances share. */
export interface SharedState extends Shared {
  /**
   * Others' certificates that were added since, and what is decided by where its epoch is another; the hosts unless
   * they are of a known SHA-256.
   */
  load(
    link: InstanceLink,
    wanted: { readonly seen: Epochs; readonly now: number; readonly knownPolicies: readonly string[] },
  ): Promise<SharedContent>;
  readonly policy: PolicyVersions;
  /** Takes over the leases of instances that are gone; each goes to one that asks. */
  adoptLeases(): Promise<readonly Lease[]>;
}

/**
 * Keeps grants, freezes and revocations. Every change is all or nothing, and committed when its promise resolves: a process
 * killed later does not lose it. A change that rejects has not been made, as far as the store can tell. Times
 * are kept in whole seconds, rounded down.
 */
export interface StateStore {
  /** Whether what is kept outlives the process. */
  readonly survivesRestart: boolean;

  /** Present where other instances may change it too. */
  readonly shared?: SharedState;

  /** The grants and waivers that expire after `now`, the oldest first; unreadable ones are left out. */
  loadGrants(now: number): Promise<readonly Grant[]>;

  /**
   * Keeps a grant, and in the same change removes those it replaces.
   *
   * @throws {AppError} `internal` when it was not kept
   */
  insertGrant(grant: Grant, replaces?: readonly string[]): Promise<void>;

  /**
   * Removes a grant; false when there is none of this id.
   *
   * @throws {AppError} `internal` when it may still be there
   */
  deleteGrant(id: string): Promise<boolean>;

  /**
   * Removes the grants that expire at `now` or before, and what is known of certificates that no host believes any
   * more; gives the number of the grants.
   */
  purgeExpired(now: number): Promise<number>;

  /**
   * All freezes.
   *
   * @throws {AppError} `invalid_config` when one can't be read: a deny is never left out
   */
  loadFreezes(): Promise<readonly Freeze[]>;

  /**
   * Keeps a freeze, in the place of older ones of the same subject (`isSameSubject()`), and in the same change
   * removes the grants and waivers whose scope is the subject (`isScopedTo()`).
   *
   * @throws {AppError} `internal` when nothing has changed
   */
  putFreeze(freeze: Freeze): Promise<void>;

  /**
   * Removes a freeze, and in the same change what grants the subject may still have. False when it was not
   * frozen: nothing changes then.
   *
   * @throws {AppError} `internal` when it may still be frozen
   */
  deleteFreeze(subject: FreezeSubject): Promise<boolean>;

  /** The certificates that a host may still believe; in batches, as they were added. */
  loadCertificates(now: number): Promise<readonly IssuedBatch[]>;

  /**
   * Keeps certificates that were issued.
   *
   * @throws {AppError} `internal` when none of them was kept
   */
  addCertificates(batches: readonly IssuedBatch[]): Promise<void>;

  /**
   * What was revoked after `since`.
   *
   * @throws {AppError} `invalid_config` when one can't be read: a deny is never left out
   */
  loadRevocations(since: number): Promise<readonly KeptRevocation[]>;

  /**
   * Keeps revocations, the later one of each subject.
   *
   * @param version where the list changes, what its next version has to be at least
   * @returns the version of the list; a changed one has another than every list before, whichever instance made it
   * @throws {AppError} `internal` when nothing has changed
   */
  putRevocations(revocations: readonly KeptRevocation[], version?: number): Promise<number>;

  /** The last version that was kept; 0 when there is none. */
  loadKrlVersion(): Promise<number>;

  /**
   * All leases, of this instance.
   *
   * @throws {AppError} `invalid_config` when one can't be read: its Secret would stay for ever
   */
  loadLeases(): Promise<readonly Lease[]>;

  /**
   * Keeps a lease, in the place of an older one of the same cluster and name.
   *
   * @throws {AppError} `internal` when it was not kept; `conflict` when another instance has its name for another Secret
   */
  putLease(lease: Lease): Promise<void>;

  /**
   * Removes a lease.
   *
   * @throws {AppError} `internal` when it may still be there
   */
  deleteLease(lease: Pick<Lease, "cluster" | "name">): Promise<void>;

  /**
   * Resolves when every change so far is where a loss of power can't reach it.
   *
   * @throws {AppError} `internal` when that is not certain; the changes stand for as long as the machine runs
   */
  checkpoint(): Promise<void>;

  /** Releases the store; it can't be used any more. */
  close(): Promise<void>;
}
