/**
 * While the server plans a query, it calls functions that it considers stable. Some of them read whole tables or
 * files, and their results can appear in an error, in the plan, or in the planning time. Only listed functions are
 * therefore allowed.
 */
import { refuse } from "./run_program.ts";

const MAX_LENGTH = 20_000;

const WRITES = new Set(["insert", "update", "delete", "merge", "into", "truncate"]);

/** Functions that depend only on their arguments or on the clock, and aggregates, which the planner never calls. */
const FUNCTIONS = new Set(
  `count sum avg min max array_agg string_agg json_agg jsonb_agg json_object_agg jsonb_object_agg bool_and bool_or
  every bit_and bit_or stddev stddev_pop stddev_samp variance var_pop var_samp corr covar_pop covar_samp mode
  percentile_cont percentile_disc row_number rank dense_rank percent_rank cume_dist ntile lag lead first_value
  last_value nth_value grouping
  lower upper initcap length char_length character_length octet_length bit_length substring substr left right trim
  btrim ltrim rtrim replace position strpos split_part starts_with concat concat_ws reverse translate md5
  coalesce nullif greatest least cast
  abs ceil ceiling floor round trunc mod div sign sqrt exp ln log power width_bucket
  now clock_timestamp statement_timestamp transaction_timestamp date_trunc date_part date_bin extract age to_char
  to_date to_timestamp to_number make_date make_time make_timestamp make_timestamptz make_interval justify_days
  justify_hours justify_interval isfinite date timezone
  array_length array_upper array_lower array_ndims array_position array_to_string string_to_array cardinality unnest
  generate_series jsonb_array_length json_array_length jsonb_typeof json_typeof jsonb_build_object
  jsonb_build_array json_build_object json_build_array jsonb_array_elements jsonb_array_elements_text
  jsonb_extract_path jsonb_extract_path_text to_json to_jsonb to_tsvector to_tsquery plainto_tsquery
  phraseto_tsquery websearch_to_tsquery ts_rank`.split(/\s+/),
);

/** Keywords and types with a length, which can precede a parenthesis as well. */
const BEFORE_PARENTHESIS = new Set(
  `select from where having on and or not in any some all exists as materialized values with recursive union
  intersect except distinct by sets rollup cube limit offset fetch first next using join lateral over filter group
  within order case when then else between symmetric like ilike similar to is row array overlaps only for of interval
  varchar char character varying bpchar nchar numeric decimal dec float bit time timestamp timestamptz timetz
  returning escape zone`.split(/\s+/),
);

/** Built-in operators. The operators of an extension or an application can call any function. */
const OPERATORS = new Set(
  "+ - * / % ^ = <> != < > <= >= || && ~ ~* !~ !~* ~~ ~~* !~~ !~~* & | # << >> -> ->> #> #>> @> <@ ? ?| ?& @@ <-> |/ @"
    .split(" "),
);

export function checkSql(text: string): string {
  if (text.length > MAX_LENGTH) refuse(`the query is longer than ${MAX_LENGTH} characters`);
  if (text.includes("\0")) refuse("the query contains a NUL character");
  const all = tokenize(text);
  if (all === undefined) return refuse("a comment, a string or a quoted name is not closed");
  const end = all.findLastIndex((token) => token.text !== ";");
  const tokens = all.slice(0, end + 1);
  if (tokens.length === 0) refuse("there is no query");
  if (!["select", "with", "values", "table"].includes(wordOf(tokens[0]))) {
    refuse("only SELECT and WITH statements can be explained");
  }
  for (const [index, token] of tokens.entries()) {
    const problem = problemOf(token, tokens.slice(Math.max(0, index - 3), index), tokens[index + 1]);
    if (problem !== undefined) refuse(problem);
  }
  const isApart = (index: number) => index > 0 && tokens[index - 1]?.end !== tokens[index]?.start;
  return tokens.map(({ text }, index) => isApart(index) ? ` ${text}` : text).join("");
}

function problemOf(
  token: SqlToken,
  before: readonly SqlToken[],
  next: SqlToken | undefined,
): string | undefined {
  const last = before.at(-1);
  const word = wordOf(token);
  if (token.text === ";") return "only one statement can be explained";
  if (WRITES.has(word) && !isLock(word, before)) {
    return `queries with ${word.toUpperCase()} cannot be explained`;
  }
  // The second string of E'…' '…' has escapes as well.
  if (token.kind === "string" && last?.kind === "string") return "two adjacent strings cannot be explained";
  if (token.kind === "operator" && !isKnownOperator(token.text)) {
    return `the operator ${token.text} cannot be explained`;
  }
  // (row).name may call a function, and so may OPERATOR(schema.+).
  if (token.text === "." && last?.text === ")") return "a field of an expression cannot be explained";
  if (next?.text === "(") return problemOfCall(token, before);
  return undefined;
}

function problemOfCall(token: SqlToken, before: readonly SqlToken[]): string | undefined {
  if (token.kind !== "word" && token.kind !== "quoted name") return undefined;
  const isQualified = before.at(-1)?.text === ".";
  const schema = before.at(-2);
  const name = token.kind === "word" ? wordOf(token) : token.text.slice(1, -1);
  const isOwn = !isQualified || (wordOf(schema) === "pg_catalog" && before.at(-3)?.text !== ".");
  if (isOwn && FUNCTIONS.has(name)) return undefined;
  if (!isQualified && token.kind === "word" && BEFORE_PARENTHESIS.has(name)) return undefined;
  return `${token.text}(…) cannot be explained, because the server could call it while it plans. Allowed are ${
    [...FUNCTIONS].slice(0, 12).join(", ")
  } and other basic functions of PostgreSQL. Omit the call: the plan hardly changes`;
}

/** `FOR UPDATE` and `FOR NO KEY UPDATE` are locks, which EXPLAIN does not acquire. */
function isLock(word: string, before: readonly SqlToken[]): boolean {
  const words = before.map(wordOf).join(" ");
  return word === "update" && /(?:^| )for(?: no key)?$/.test(words);
}

/** The server reads `=-1` as `=` and `-1`. */
function isKnownOperator(text: string): boolean {
  if (OPERATORS.has(text)) return true;
  return /^[<>=*/]+[+-]+$/.test(text) && isKnownOperator(text.replace(/(?<![+-])[+-]+$/, ""));
}

function wordOf(token: SqlToken | undefined): string {
  return token?.kind === "word" ? token.text.replace(/[A-Z]/g, (letter) => letter.toLowerCase()) : "";
}

/** A token. Comments and white space are not tokens. */
interface SqlToken {
  readonly kind: string;
  readonly text: string;
  readonly start: number;
  readonly end: number;
}

/** Patterns by kind, in order of precedence. `open` is the start of a string or name without an end. */
const KINDS: Readonly<Record<string, RegExp>> = {
  space: /[ \t\n\r\f\v]+|--[^\r\n]*/,
  comment: /\/\*/,
  // E'…' has escapes. B'…', X'…', N'…' and U&'…' are plain strings. The prefix U& can be a token by itself.
  string:
    /[eE]'(?:\\[^]|''|[^'\\])*'(?!')|[bxnBXN]?'(?:''|[^'])*'(?!')|(?<tag>\$(?:[A-Za-z_\u0080-\uffff][\w\u0080-\uffff]*)?\$)[^]*?\k<tag>/,
  "quoted name": /"(?:""|[^"])*"(?!")/,
  open: /[ebxnEBXN]?'|"|\$(?:[A-Za-z_\u0080-\uffff][\w\u0080-\uffff]*)?\$/,
  // Every character beyond ASCII belongs to a name, even a space.
  word: /[A-Za-z_\u0080-\uffff][\w$\u0080-\uffff]*/,
  // The next token begins directly after a number: `1.lower(x)` contains a call.
  number: /(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?/,
  operator: /(?:(?!--|\/\*)[+\-*/<>=~!@#%^&|`?])+/,
  mark: /\$\d+|::|[^]/,
};
const TOKEN = Object.entries(KINDS).map(([kind, { source }]) => [kind, new RegExp(source, "y")] as const);

/** The tokens, or `undefined` if a comment, a string or a quoted name has no end. */
function tokenize(text: string): readonly SqlToken[] | undefined {
  const tokens: SqlToken[] = [];
  for (let start = 0; start < text.length;) {
    for (const [kind, pattern] of TOKEN) {
      pattern.lastIndex = start;
      if (!pattern.test(text)) continue;
      const end = kind === "comment" ? commentEnd(text, start) : pattern.lastIndex;
      if (kind === "open" || end === undefined) return undefined;
      if (kind !== "space" && kind !== "comment") {
        tokens.push({ kind, text: text.slice(start, end), start, end });
      }
      start = end;
      break;
    }
  }
  return tokens;
}

function commentEnd(text: string, start: number): number | undefined {
  let depth = 0;
  for (const mark of text.slice(start).matchAll(/\/\*|\*\//g)) {
    depth += mark[0] === "/*" ? 1 : -1;
    if (depth === 0) return start + mark.index + 2;
  }
  return undefined;
}
