/**
 * The tokens of a PostgreSQL statement, as the server's lexer separates them.
 *
 * @module
 */

/** A token as it is written. Comments and blanks are not tokens. */
export interface SqlToken {
  readonly kind: "word" | "quoted name" | "string" | "number" | "operator" | "mark";
  readonly text: string;
  readonly start: number;
  readonly end: number;
}

const BLANKS = /[ \t\n\r\f\v]+|--[^\r\n]*/y;
/** Every character beyond ASCII belongs to a name, even a blank. */
const WORD = /[A-Za-z_\u0080-\uffff][\w$\u0080-\uffff]*/y;
/** What follows directly is the next token: `1.lower(x)` contains a call. */
const NUMBER = /(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?/y;
const OPERATOR_CHARACTERS = "+-*/<>=~!@#%^&|`?";
const DOLLAR_TAG = /\$(?:[A-Za-z_\u0080-\uffff][\w\u0080-\uffff]*)?\$/y;
const PARAMETER = /\$\d+/y;

/** The tokens; `undefined` when a comment, a string or a quoted name never ends. */
export function tokenize(text: string): readonly SqlToken[] | undefined {
  const tokens: SqlToken[] = [];
  for (let at = 0; at < text.length;) {
    const blank = matchAt(BLANKS, text, at);
    if (blank > at) {
      at = blank;
      continue;
    }
    if (text.startsWith("/*", at)) {
      const end = commentEnd(text, at + 2);
      if (end === undefined) return undefined;
      at = end;
      continue;
    }
    const token = tokenAt(text, at);
    if (token === undefined) return undefined;
    tokens.push({ ...token, text: text.slice(at, token.end), start: at });
    at = token.end;
  }
  return tokens;
}

function tokenAt(text: string, at: number): Pick<SqlToken, "kind" | "end"> | undefined {
  const character = text.charAt(at);
  // E'…' has escapes; B'…', X'…' and N'…' are strings like others, and so is U&'…', whose prefix may stand alone.
  const prefix = /^[ebxn]$/i.test(character) && text.charAt(at + 1) === "'" ? character : "";
  if (prefix !== "" || character === "'") {
    return closed("string", quoteEnd(text, at + prefix.length + 1, prefix.toLowerCase() === "e"));
  }
  if (character === '"') return closed("quoted name", quoteEnd(text, at + 1, false));
  if (character === "$") {
    const parameter = matchAt(PARAMETER, text, at);
    if (parameter > at) return { kind: "mark", end: parameter };
    const tag = text.slice(at, matchAt(DOLLAR_TAG, text, at));
    if (tag === "") return { kind: "mark", end: at + 1 };
    const end = text.indexOf(tag, at + tag.length);
    return closed("string", end < 0 ? undefined : end + tag.length);
  }
  for (const [kind, pattern] of [["word", WORD], ["number", NUMBER]] as const) {
    const end = matchAt(pattern, text, at);
    if (end > at) return { kind, end };
  }
  if (OPERATOR_CHARACTERS.includes(character)) return { kind: "operator", end: operatorEnd(text, at) };
  if (text.startsWith("::", at)) return { kind: "mark", end: at + 2 };
  return { kind: "mark", end: at + 1 };
}

function closed(kind: SqlToken["kind"], end: number | undefined): Pick<SqlToken, "kind" | "end"> | undefined {
  return end === undefined ? undefined : { kind, end };
}

/** The end of a match at a position; the position itself if there is no match. */
function matchAt(pattern: RegExp, text: string, at: number): number {
  pattern.lastIndex = at;
  return pattern.test(text) ? pattern.lastIndex : at;
}

/** Comments may also begin in the middle of operator characters. */
function operatorEnd(text: string, from: number): number {
  let end = from;
  while (end < text.length && OPERATOR_CHARACTERS.includes(text.charAt(end))) {
    if (end > from && /^(?:--|\/\*)/.test(text.slice(end, end + 2))) break;
    end++;
  }
  return end;
}

function commentEnd(text: string, from: number): number | undefined {
  let depth = 1;
  const marks = /\/\*|\*\//g;
  marks.lastIndex = from;
  for (let mark = marks.exec(text); mark !== null; mark = marks.exec(text)) {
    depth += mark[0] === "/*" ? 1 : -1;
    if (depth === 0) return mark.index + 2;
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
