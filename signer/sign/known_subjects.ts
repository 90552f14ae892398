/**
 * Whom requests have named since the start, so that a freeze of a misspelt name does not go unnoticed. Bounded, and
 * in memory only: it warns and decides nothing, so that who pushes names out of it gains nothing.
 *
 * @module
 */
import { foldIdentity } from "@gateway/shared/text";
import type { FreezeSubject } from "@gateway/shared/wire";
import { formatSubject } from "../live/freezes.ts";

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
