/**
 * Text as a word of a POSIX shell.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { shellQuote, singleQuote } from "@gateway/shared/shell_quote";
 *
 * assert.equal(shellQuote("a b"), "'a b'");
 * assert.equal(shellQuote("/etc/hosts"), "/etc/hosts");
 * assert.equal(singleQuote("it's"), String.raw`'it'\''s'`);
 * ```
 *
 * @module
 */

// `=` is left out: zsh rewrites a word that begins with it.
const BARE_WORD = /^[A-Za-z0-9@%_+:,./-]+$/;

/** A word as a POSIX shell has to be given it: bare where that is safe, else in single quotes. */
export function shellQuote(word: string): string {
  return BARE_WORD.test(word) ? word : singleQuote(word);
}

/** A text as one word of a POSIX shell, in single quotes whatever is in it. */
export function singleQuote(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
