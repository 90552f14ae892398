/** Freezes as immutable values: frozen subjects, and the check whether a request belongs to one of them. */
import { editDistance, foldIdentity, isSameIdentity } from "@gateway/shared/text";
import {
  formatTimestamp,
  type FreezeKind,
  type FreezeSubject,
  type RevocationEntry,
} from "@gateway/shared/wire";

export interface Freeze extends FreezeSubject {
  readonly reason: string;
  readonly frozenBy: string;
  readonly frozenAt: number;
}

/** All freezes in force, by kind and folded name; immutable. */
export type FreezeSet = Readonly<Record<FreezeKind, ReadonlyMap<string, Freeze>>>;

export interface RequestIdentity {
  readonly caller: string;
  readonly endUser: string;
  /** The CN of the connection: the forwarder, if there is one. */
  readonly peer: string;
}

export const NO_FREEZES: FreezeSet = {
  caller: new Map(),
  end_user: new Map(),
  session_id: new Map(),
  serial: new Map(),
};

export function withFreeze(set: FreezeSet, freeze: Freeze): FreezeSet {
  return { ...set, [freeze.kind]: new Map(set[freeze.kind]).set(keyOf(freeze), freeze) };
}

export function withoutFreeze(set: FreezeSet, subject: FreezeSubject): FreezeSet {
  if (!isFrozen(set, subject)) return set;
  const rest = new Map(set[subject.kind]);
  rest.delete(keyOf(subject));
  return { ...set, [subject.kind]: rest };
}

export function isFrozen(set: FreezeSet, subject: FreezeSubject): boolean {
  return set[subject.kind].has(keyOf(subject));
}

/**
 * Whether two subjects are the same. Names of people and programs are compared in their folded form, so that
 * other spellings match.
 */
export function isSameSubject(left: FreezeSubject, right: FreezeSubject): boolean {
  return left.kind === right.kind && keyOf(left) === keyOf(right);
}

/** Whether a freeze of the subject removes a grant of this scope. */
export function isScopedTo(
  { caller, endUser }: { readonly caller: string; readonly endUser: string },
  { kind, value }: FreezeSubject,
): boolean {
  if (value === "" || (kind !== "caller" && kind !== "end_user")) return false;
  return isSameIdentity(kind === "caller" ? caller : endUser, value);
}

/**
 * Finds the freeze of the caller, the end user or the peer. The freeze of a forwarder applies to all requests
 * that it forwards.
 */
export function findFreeze(set: FreezeSet, { caller, endUser, peer }: RequestIdentity): Freeze | undefined {
  return set.caller.get(foldIdentity(caller)) ?? set.end_user.get(foldIdentity(endUser)) ??
    set.caller.get(foldIdentity(peer));
}

export function findScopeFreeze(
  set: FreezeSet,
  scope: { readonly caller: string; readonly endUser: string },
): Freeze | undefined {
  return set.caller.get(foldIdentity(scope.caller)) ?? set.end_user.get(foldIdentity(scope.endUser));
}

export function formatSubject({ kind, value }: FreezeSubject): string {
  return `${kind}=${value}`;
}

/** The freezes that a reader may see. Only admins see the reasons, and who froze a subject. */
export function listRevocations(set: FreezeSet, reader: "admin" | "caller"): readonly RevocationEntry[] {
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

/** The key of a subject: IDs and serials unchanged, names of people and programs folded. */
function keyOf({ kind, value }: FreezeSubject): string {
  return kind === "caller" || kind === "end_user" ? foldIdentity(value) : value;
}

type NamedKind = "caller" | "end_user";
const KINDS = ["caller", "end_user"] as const satisfies readonly NamedKind[];

const MAX_NAMES = 4096;
/** The maximum length of a name to compare, which limits the cost of the search. */
const MAX_LENGTH = 64;
/** The maximum edit distance of a suggested name. */
const NEAR = 2;
const MAX_SUGGESTIONS = 3;

/**
 * The names that requests have used since the start, so that the signer can warn about a freeze of a
 * misspelled name. The set is bounded and in memory. An attacker who displaces names from it can only
 * suppress a warning.
 */
export class KnownSubjects {
  readonly #names: Readonly<Record<NamedKind, Map<string, string>>> = {
    caller: new Map(),
    end_user: new Map(),
  };

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

  /** A warning for an admin who freezes a subject that no request has named. */
  warningFor(subject: FreezeSubject): string | undefined {
    const { kind, value } = subject;
    if ((kind !== "caller" && kind !== "end_user") || value.length > MAX_LENGTH) return undefined;
    const key = foldIdentity(value);
    if (this.#names[kind].has(key)) return undefined;
    const suggestions = KINDS.flatMap((other) =>
      [...this.#names[other]].map(([folded, name]) => ({
        kind: other,
        value: name,
        far: Math.abs(key.length - folded.length) > NEAR ? Infinity : editDistance(key, folded),
      }))
    ).filter(({ far }) => far <= NEAR && far < key.length)
      .sort((a, b) => a.far - b.far)
      .slice(0, MAX_SUGGESTIONS)
      .map(formatSubject);
    const hint = suggestions.length === 0 ? "" : `; requests named ${suggestions.join(", ")}`;
    return `no request since the signer's start named ${formatSubject(subject)}${hint}`;
  }
}
