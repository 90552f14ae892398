/**
 * When two names are taken for one person or program, where that denies: freezes and four-eyes. A certificate
 * authority or an identity provider may tell the same one in other capitals, in compatibility forms of Unicode, or
 * as a name of DNS with its dot at the end. What grants compares names exactly.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { foldIdentity, isSameIdentity } from "@gateway/shared/identity";
 *
 * assert.ok(isSameIdentity("Alice@Example.com", "alice@example.com."));
 * assert.ok(!isSameIdentity("alice", "alice2"));
 * assert.equal(foldIdentity("\uff21lice"), "alice");
 * ```
 *
 * @module
 */

/** Names for which everything below changes no more than capitals and dots. */
const ASCII = /^[\0-\x7f]*$/;
/** Of a name that has something before them: what is nothing but dots is a name too. */
const TRAILING_DOTS = /(?<=[^.])\.+$/;

/**
 * The form in which names are the same that differ by Unicode compatibility form (NFKC), by case, or by trailing
 * dots. Empty only for the empty name. Not for showing.
 */
export function foldIdentity(name: string): string {
  if (ASCII.test(name)) return name.toLowerCase().replace(TRAILING_DOTS, "");
  return foldCase(name.normalize("NFKC")).normalize("NFKC").replace(TRAILING_DOTS, "");
}

/** Whether two names are taken for one. */
export function isSameIdentity(left: string, right: string): boolean {
  return foldIdentity(left) === foldIdentity(right);
}

/** Full case folding, and wider where capitals are shared, as by `ı` and `i`: too many stopped is the safe side. */
function foldCase(text: string): string {
  // By way of small letters first: the capital sharp s has no other way to its two letters. Character by character at
  // last: a sigma at a word's end is the same as any other.
  return Array.from(text.toLowerCase().toUpperCase(), (character) => character.toLowerCase()).join("");
}
