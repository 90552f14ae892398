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

/** The kinds of subjects that requests name. */
type NamedKind = "caller" | "end_user";
const KINDS = ["caller", "end_user"] as const satisfies readonly NamedKind[];

/** Names of a kind; the one that was named longest ago leaves first. */
const MAX_NAMES = 4096;
/** Nobody types a longer one; and it bounds the search. */
const MAX_LENGTH = 64;
/** So many typing errors apart is near. */
const NEAR = 2;
const MAX_SUGGESTIONS = 3;

/** The names of callers and end users, as requests wrote them last. */
export class KnownSubjects {
  readonly #names: Readonly<Record<NamedKind, Map<string, string>>> = {
    caller: new Map(),
    end_user: new Map(),
  };

  /** Remembers whom a request names; empty names are nobody. */
  add(kind: NamedKind, name: string): void {
    if (name === "" || name.length > MAX_LENGTH) return;
    const names = this.#names[kind];
    const key = foldIdentity(name);
    names.delete(key);
    names.set(key, name);
    if (names.size <= MAX_NAMES) return;
    const [oldest] = names.keys();
    if (oldest !== undefined) names.delete(oldest);
  }

  /** What an admin should know who freezes somebody that no request has named; `undefined` when there is nothing. */
  warningFor(subject: FreezeSubject): string | undefined {
    const { kind, value } = subject;
    if ((kind !== "caller" && kind !== "end_user") || value.length > MAX_LENGTH) return undefined;
    const key = foldIdentity(value);
    if (this.#names[kind].has(key)) return undefined;
    const suggestions = KINDS.flatMap((other) =>
      [...this.#names[other]].map(([folded, name]) => ({
        kind: other,
        value: name,
        far: distance(key, folded),
      }))
    ).filter(({ far }) => far <= NEAR && far < key.length)
      .sort((a, b) => a.far - b.far)
      .slice(0, MAX_SUGGESTIONS)
      .map(formatSubject);
    const hint = suggestions.length === 0 ? "" : `; requests named ${suggestions.join(", ")}`;
    return `no request since the signer's start named ${formatSubject(subject)}${hint}`;
  }
}

/** How many letters have to be added, left out or exchanged to come from one text to the other; more than near is more. */
function distance(left: string, right: string): number {
  if (Math.abs(left.length - right.length) > NEAR) return NEAR + 1;
  let row = Array.from({ length: right.length + 1 }, (_, index) => index);
  for (const [i, letter] of [...left].entries()) {
    const next = [i + 1];
    for (const [j, other] of [...right].entries()) {
      const exchanged = (row[j] ?? 0) + (letter === other ? 0 : 1);
      next.push(Math.min(exchanged, (row[j + 1] ?? 0) + 1, (next[j] ?? 0) + 1));
    }
    row = next;
  }
  return row.at(-1) ?? 0;
}
