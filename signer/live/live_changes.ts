import type { Freeze } from "./freezes.ts";
import type { GatedCommand, Grant } from "@gateway/shared/policy";

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
export type GrantOutcome =
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
export type WaiverOutcome =
  | { readonly kind: "created"; readonly grant: Grant }
  /** `reason` is for the audit record. */
  | { readonly kind: "skipped"; readonly reason: string };

export interface FreezeFacts {
  readonly newlyFrozen: boolean;
  /** Active grants and waivers that are gone. */
  readonly grantsRevoked: number;
}

/** What a freeze did; the subject is frozen in every case. */
export interface FreezeOutcome extends FreezeFacts {
  /** `memory`: the store failed, so a restart or a loss of power may undo it. */
  readonly kept: "durable" | "memory";
}
