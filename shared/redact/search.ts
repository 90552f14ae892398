/**
 * Finds and masks the secrets of a text.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { finish } from "@gateway/shared/clock";
 * import { maskSecrets } from "@gateway/shared/redact";
 *
 * assert.equal(finish(maskSecrets("password: hunter2", "documents", () => "***")), "password: ***");
 * ```
 *
 * @module
 */
import type { Steps } from "../clock.ts";
import { type Catalog, COMMANDS, DOCUMENTS, type Place, type SecretRule } from "./catalog.ts";
import { type Open, Searched } from "./searched.ts";

/** How many characters are searched, or how many secrets masked, in one step. */
const STEP = 32_768;
const PLACES_PER_STEP = 1000;
const MARK = /^\[REDACTED(?::[\w.-]{1,64})?\]$/;

/** A secret that a rule found from one of its hints. */
interface Found extends Place {
  readonly name: string;
  readonly hint: number;
}

/** What is in a text that may go on. */
export interface Findings {
  /** In the order of their starts; they may overlap. */
  readonly found: Found[];
  /** In the order of their hints: what depends on the text that follows. */
  readonly open: readonly (Open & { readonly name: string; readonly hint: number })[];
}

/** The kinds of texts: in commands, the working directory is not a secret. */
type TextKind = "commands" | "documents";

const CATALOGS: Readonly<Record<TextKind, Catalog>> = { commands: COMMANDS, documents: DOCUMENTS };
const HINTS = Object.keys(COMMANDS);
const HINT = new RegExp(HINTS.join("|").replaceAll(".", "\\."), "gi");
const LONGEST_HINT = Math.max(...HINTS.map(({ length }) => length));

/** In RE2, the long s and the Kelvin sign match s and k. */
function fold(text: string): string {
  return text.replace(/[\u017f\u212a]/g, (char) => char === "\u017f" ? "s" : "k");
}

/** Searches for secrets whose hints are between two positions of a text. */
export function* findSecrets(
  searched: Searched,
  kind: TextKind,
  from = 0,
  limit: number = searched.text.length,
): Steps<Findings> {
  const found: Found[] = [];
  const open: Findings["open"][number][] = [];
  /** Where the last secret of each rule ends, as far as is known. */
  let done: Map<SecretRule, number> | undefined;
  for (let base = from; base < limit; base += STEP) {
    const end = Math.min(base + STEP, limit) - base;
    const piece = fold(searched.text.slice(base, base + end + LONGEST_HINT - 1));
    HINT.lastIndex = 0;
    for (let hit = HINT.exec(piece); hit !== null && hit.index < end; hit = HINT.exec(piece)) {
      const hint = base + hit.index;
      for (const rule of CATALOGS[kind][hit[0].toLowerCase()] ?? []) {
        if (hint < (done?.get(rule) ?? 0)) continue;
        const place = rule.find(searched, hint);
        if (place !== undefined) {
          (done ??= new Map()).set(rule, place.end);
          insert(found, { name: rule.name, hint, ...place });
        } else if (searched.open !== undefined) {
          open.push({ name: rule.name, hint, ...searched.open });
          if (searched.open.secret !== undefined) (done ??= new Map()).set(rule, Infinity);
          searched.open = undefined;
        }
      }
      // Hints may overlap.
      HINT.lastIndex = hit.index + 1;
    }
    yield;
  }
  return { found, open };
}

/** Inserts in order. The places arrive nearly sorted, so the right index is close to the end. */
export function insert(found: Found[], place: Found): void {
  let at = found.length;
  while (at > 0 && (found[at - 1]?.start ?? 0) > place.start) at--;
  found.splice(at, 0, place);
}

/**
 * The text with a mark for each secret. Overlapping secrets become one mark of the class of the first. A mark stays.
 *
 * @param markOf called for each secret that is masked
 */
export function* maskSecrets(text: string, kind: TextKind, markOf: (name: string) => string): Steps<string> {
  // Most texts are short and have no hint.
  const from = text.length <= STEP ? fold(text).search(HINT) : 0;
  if (from < 0) return text;
  const { found } = yield* findSecrets(new Searched(text), kind, from);
  return found.length === 0 ? text : yield* maskFound(text, found, markOf);
}

/** Masks what was found. */
export function* maskFound(
  text: string,
  found: readonly Found[],
  markOf: (name: string) => string,
): Steps<string> {
  const parts: string[] = [];
  let copied = 0;
  let [start, end, name] = [0, 0, ""];
  const flush = () => {
    if (end === start || MARK.test(text.slice(start, end))) return;
    parts.push(text.slice(copied, start), markOf(name));
    copied = end;
  };
  for (const [index, place] of found.entries()) {
    if (index % PLACES_PER_STEP === 0) yield;
    if (place.start < end) {
      end = Math.max(end, place.end);
      continue;
    }
    flush();
    ({ start, end, name } = place);
  }
  flush();
  return copied === 0 ? text : parts.join("") + text.slice(copied);
}
