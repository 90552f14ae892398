/**
 * Which statements may be explained: one query that reads. The database has the last word, in a read-only
 * transaction; this is for a clear refusal before.
 *
 * @module
 */

/** A statement without comments and without the semicolon at its end, or why it cannot be explained. */
export type CheckedSql =
  | { readonly kind: "query"; readonly query: string }
  | { readonly kind: "refused"; readonly reason: string };

const MAX_LENGTH = 20_000;

const WRITES = /\b(?:insert|update|delete|merge|into|truncate)\b/i;
/** Locks that EXPLAIN does not take. */
const LOCKS = /\bfor\s+(?:no\s+key\s+)?update\b/gi;

/** Checks a statement of the model's making. */
export function checkSql(text: string): CheckedSql {
  if (text.length > MAX_LENGTH) return refused(`the query is longer than ${MAX_LENGTH} characters`);
  if (text.includes("\0")) return refused("the query has a NUL");
  const lexed = lex(text);
  if (lexed === undefined) return refused("a comment, a string or a quoted name is not closed");
  const query = lexed.query.replace(/[;\s]+$/, "").trimStart();
  const bare = lexed.bare.replace(/[;\s]+$/, "").trimStart();
  if (query === "") return refused("there is no query");
  if (!/^(?:select|with|values|table)\b/i.test(bare)) return refused("only SELECT and WITH can be explained");
  if (bare.includes(";")) return refused("only one statement can be explained");
  const write = WRITES.exec(bare.replaceAll(LOCKS, " "));
  if (write !== null) {
    return refused(`only queries that read can be explained, not with ${write[0].toUpperCase()}`);
  }
  return { kind: "query", query };
}

interface Lexed {
  /** Without comments. */
  readonly query: string;
  /** Also without what stands in quotes. */
  readonly bare: string;
}

function lex(text: string): Lexed | undefined {
  let query = "";
  let bare = "";
  let at = 0;
  while (at < text.length) {
    const end = endOfQuoted(text, at);
    if (end === undefined) return undefined;
    const isComment = text.startsWith("--", at) || text.startsWith("/*", at);
    const piece = isComment ? " " : text.slice(at, Math.max(end, at + 1));
    query += piece;
    // A quoted name is a word, so that nothing can be hidden between two.
    bare += isComment || end === at ? piece : '""';
    at = Math.max(end, at + 1);
  }
  return { query, bare };
}

/** Where the comment, string or quoted name that starts here ends; `at` when none does, `undefined` when it never ends. */
function endOfQuoted(text: string, at: number): number | undefined {
  if (text.startsWith("--", at)) return lineEnd(text, at);
  if (text.startsWith("/*", at)) return commentEnd(text, at + 2);
  const character = text.charAt(at);
  if (character === '"') return quoteEnd(text, at + 1, false);
  if (character === "'") {
    return quoteEnd(text, at + 1, /(?:^|[^\w$\u0080-\uffff])[eE]$/.test(text.slice(Math.max(0, at - 2), at)));
  }
  const dollar = character === "$" && !/[\w$\u0080-\uffff]/.test(text.charAt(at - 1))
    ? /^\$(?:[A-Za-z_\u0080-\uffff][\w\u0080-\uffff]{0,62})?\$/.exec(text.slice(at, at + 70))
    : null;
  if (dollar === null) return at;
  const end = text.indexOf(dollar[0], at + dollar[0].length);
  return end < 0 ? undefined : end + dollar[0].length;
}

function lineEnd(text: string, from: number): number {
  const end = text.slice(from).search(/[\r\n]/);
  return end < 0 ? text.length : from + end;
}

/** Comments nest. */
function commentEnd(text: string, from: number): number | undefined {
  let depth = 1;
  for (const { 0: mark, index } of text.slice(from).matchAll(/\/\*|\*\//g)) {
    depth += mark === "/*" ? 1 : -1;
    if (depth === 0) return from + index + 2;
  }
  return undefined;
}

function quoteEnd(text: string, from: number, hasEscapes: boolean): number | undefined {
  const quote = text.charAt(from - 1);
  for (let at = from; at < text.length; at++) {
    const character = text.charAt(at);
    if (hasEscapes && character === "\\") at++;
    else if (character === quote && text.charAt(at + 1) === quote) at++;
    else if (character === quote) return at + 1;
  }
  return undefined;
}

function refused(reason: string): CheckedSql {
  return { kind: "refused", reason };
}
