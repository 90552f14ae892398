/**
 * The kill switch as a value: who is frozen, and whether a request comes from one of them.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { findFreeze, NO_FREEZES, withFreeze } from "./freezes.ts";
 *
 * const freeze = { kind: "caller", value: "control-plane", reason: "", frozenBy: "operator", frozenAt: 0 } as const;
 * const frozen = withFreeze(NO_FREEZES, freeze);
 * assert.equal(findFreeze(frozen, { caller: "broker-1", endUser: "", peer: "control-plane" }), freeze);
 * assert.equal(findFreeze(NO_FREEZES, { caller: "broker-1", endUser: "", peer: "control-plane" }), undefined);
 * ```
 *
 * @module
 */
import { foldIdentity, isSameIdentity } from "@gateway/shared/text";
import {
  formatTimestamp,
  type FreezeKind,
  type FreezeSubject,
  type RevocationEntry,
} from "@gateway/shared/wire";

export interface Freeze extends FreezeSubject {
  /** Empty: none was given. */
  readonly reason: string;
  readonly frozenBy: string;
  /** Milliseconds since the epoch. */
  readonly frozenAt: number;
}

/** All freezes in force, by kind and what names a subject; immutable. */
export type FreezeSet = Readonly<Record<FreezeKind, ReadonlyMap<string, Freeze>>>;

export interface RequestIdentity {
  readonly caller: string;
  /** Empty: none. */
  readonly endUser: string;
  /** The CN of the connection: the forwarder, where there is one. */
  readonly peer: string;
}

export const NO_FREEZES: FreezeSet = {
  caller: new Map(),
  end_user: new Map(),
  session_id: new Map(),
  serial: new Map(),
};

/** The set with one freeze more; a freeze of the same subject is replaced. */
export function withFreeze(set: FreezeSet, freeze: Freeze): FreezeSet {
  return { ...set, [freeze.kind]: new Map(set[freeze.kind]).set(keyOf(freeze), freeze) };
}

/** The set without the freeze of a subject. */
export function withoutFreeze(set: FreezeSet, subject: FreezeSubject): FreezeSet {
  if (!isFrozen(set, subject)) return set;
  const rest = new Map(set[subject.kind]);
  rest.delete(keyOf(subject));
  return { ...set, [subject.kind]: rest };
}

export function isFrozen(set: FreezeSet, subject: FreezeSubject): boolean {
  return set[subject.kind].has(keyOf(subject));
}

/** Whether two subjects are one: people and programs also when their names are written in another way. */
export function isSameSubject(left: FreezeSubject, right: FreezeSubject): boolean {
  return left.kind === right.kind && keyOf(left) === keyOf(right);
}

/** Whether a grant's scope is a subject: what a freeze of the subject takes away. */
export function isScopedTo(
  { caller, endUser }: { readonly caller: string; readonly endUser: string },
  { kind, value }: FreezeSubject,
): boolean {
  if (value === "") return false;
  switch (kind) {
    case "caller":
      return isSameIdentity(caller, value);
    case "end_user":
      return isSameIdentity(endUser, value);
    case "session_id":
    case "serial":
      return false;
    default:
      return kind satisfies never;
  }
}

/**
 * The first freeze that stops a request: of the effective caller, of the end user, of the peer. A frozen
 * forwarder stops everything that it forwards.
 */
export function findFreeze(set: FreezeSet, { caller, endUser, peer }: RequestIdentity): Freeze | undefined {
  return set.caller.get(foldIdentity(caller)) ?? set.end_user.get(foldIdentity(endUser)) ??
    set.caller.get(foldIdentity(peer));
}

/** The freeze that keeps a grant or waiver of this scope from being made, if there is one. */
export function findScopeFreeze(
  set: FreezeSet,
  scope: { readonly caller: string; readonly endUser: string },
): Freeze | undefined {
  return set.caller.get(foldIdentity(scope.caller)) ?? set.end_user.get(foldIdentity(scope.endUser));
}

/** A subject as it stands in messages and audit records. */
export function formatSubject({ kind, value }: FreezeSubject): string {
  return `${kind}=${value}`;
}

/** Who reads the revocation list: an admin, or any caller, to whom reasons and admins are nobody's business. */
type RevocationReader = "admin" | "caller";

/** The list of `GET /v1/revocations`, by kind and value. */
export function listRevocations(set: FreezeSet, reader: RevocationReader): readonly RevocationEntry[] {
  const freezes = Object.values(set).flatMap((byValue) =>
    [...byValue.values()].sort((a, b) => a.value < b.value ? -1 : 1)
  );
  return freezes.map(({ kind, value, reason, frozenBy, frozenAt }) => ({
    kind,
    value,
    ...(reader === "admin" && reason !== "" && { reason }),
    ...(reader === "admin" && { frozen_by: frozenBy }),
    frozen_at: formatTimestamp(frozenAt),
  }));
}

/** What is told apart: ids and serials to the letter, people and programs by what their names fold to. */
function keyOf({ kind, value }: FreezeSubject): string {
  switch (kind) {
    case "caller":
    case "end_user":
      return foldIdentity(value);
    case "session_id":
    case "serial":
      return value;
    default:
      return kind satisfies never;
  }
}
