// The catalog of secrets: how passwords, keys and tokens appear in commands, output, files and messages. A
// rule is tried only at its hints. Every step of a rule is bounded, or is a search that remembers its last
// result. Therefore the time is linear in the length of the text, even for a text that an attacker designed
// to be slow.

/** Position of a secret. */
export interface Place {
  readonly start: number;
  readonly end: number;
}

/**
 * Returns the position after a part of a rule, or `undefined` if the part does not match or its end is
 * unknown.
 */
type Step = (searched: Searched, at: number) => number | undefined;
/** Finds the secret that starts at a position, or at the hint of its rule. */
type Value = (searched: Searched, at: number, hint: number) => Place | undefined;

/** One form of a secret of a class. */
export interface SecretRule {
  /** The class: shown in the mark and in counts. */
  readonly name: string;
  readonly find: (searched: Searched, hint: number) => Place | undefined;
}

/** The rules by hint, in lower case. */
export type Catalog = Readonly<Record<string, readonly SecretRule[]>>;

// White space as RE2 defines it. A value ends only at these characters, because a larger set would mask less.
const B = String.raw`\t\n\f\r `;
const BARE = `["'${B}]`;
const LINE = `["'\\r\\n]`;
/** Matches a position that does not follow a word character, in the same way as RE2. */
const START = "(?-i:(?<![A-Za-z0-9_]))";
const END = "(?-i:(?![A-Za-z0-9_]))";

/** The flag `u` gives the case folding of RE2, where `k` also matches the Kelvin sign. */
function sticky(source: string): Step {
  const pattern = new RegExp(source, "iuy");
  return ({ text }, at) => {
    pattern.lastIndex = at;
    return pattern.test(text) ? pattern.lastIndex : undefined;
  };
}

/** Skips white space. `least` is the minimum length. */
function gap(least: 0 | 1): Step {
  const word = /\S/g;
  return (searched, at) => {
    const end = searched.next(word, at);
    if (searched.isUnfinished(end)) return searched.wait(word);
    return end - at >= least ? end : undefined;
  };
}

function equalsOrGap(): Step {
  const blanks = gap(1);
  return (searched, at) => searched.text.charAt(at) === "=" ? at + 1 : blanks(searched, at);
}

/** A secret of at least `least` characters that ends before a character of `end`. */
function until(end: string, least = 1): Value {
  const pattern = new RegExp(end, "g");
  const rest = new RegExp(`(?=${end})`);
  return (searched, start) => {
    const found = searched.next(pattern, start);
    if (searched.isUnfinished(found)) return searched.begin(start, rest);
    return found - start >= least ? { start, end: found } : undefined;
  };
}

/** A secret as in {@linkcode until}, if the character after it is the expected one. */
function followedBy(expected: string, end: string, least = 1): Value {
  const run = until(end, least);
  return (searched, start, hint) => {
    const place = run(searched, start, hint);
    return place && searched.text.charAt(place.end) === expected ? place : undefined;
  };
}

/** Skips a run of characters and the expected character after them. */
function upTo(expected: string, end: string, least?: number): Step {
  const run = followedBy(expected, end, least);
  return (searched, at) => {
    const place = run(searched, at, at);
    return place && place.end + 1;
  };
}

/**
 * A quoted or bare secret. Without a closing quote, it ends at the end of the line. The quotes of an argument are
 * masked too. Those of a setting, which may contain escapes, are kept.
 */
function quotedOr(bare: Value, kind: "argument" | "setting"): Value {
  const isArgument = kind === "argument";
  const quotes: Readonly<Record<string, RegExp>> = isArgument
    ? { '"': /"/g, "'": /'/g }
    : { '"': /"(?<=(?<!\\)(?:\\\\)*")/g, "'": /'(?<=(?<!\\)(?:\\\\)*')/g };
  const lineEnd = /[\r\n]/g;
  return (searched, start) => {
    const quote = quotes[searched.text.charAt(start)];
    if (quote === undefined) return bare(searched, start, start);
    const end = searched.next(quote, start + 1);
    const from = isArgument ? start : start + 1;
    if (searched.isUnfinished(end)) return searched.begin(from, quote);
    if (end === searched.text.length) return { start, end: searched.next(lineEnd, start) };
    return { start: from, end: isArgument ? end + 1 : end };
  };
}

const argument = () => quotedOr(until(BARE), "argument");

/** A bare value of a setting, which also ends at a comma or a semicolon. */
function setting(): Value {
  const bare = until(`[,;"'${B}]`);
  return quotedOr(
    (searched, start) =>
      "[{>=`,;".includes(searched.text.charAt(start)) ? undefined : bare(searched, start, start),
    "setting",
  );
}

/** A secret that begins with its hint. */
function withHint(value: Value): Value {
  return (searched, at, hint) => {
    const place = value(searched, at, hint);
    return place && { start: hint, end: place.end };
  };
}

/** A password in a URI. It ends at the last `@`, because it may contain `/` and `@`. */
function uriPassword(): Value {
  const [at, end] = [/@/g, new RegExp(`["'<>\x60${B}]`, "g")];
  const rest = new RegExp(`(?=${end.source})`);
  return (searched, start) => {
    const limit = searched.next(end, start);
    if (searched.isUnfinished(limit)) return searched.begin(start, rest);
    if (searched.next(at, start) >= limit) return undefined;
    const last = searched.text.lastIndexOf("@", limit - 1);
    return last > start ? { start, end: last } : undefined;
  };
}

/** A private key. If its last line is missing, it extends to the end of the text. */
function keyBlock(): Value {
  const labelEnd = /[^A-Z0-9 ]/g;
  return (searched, start) => {
    const { text } = searched;
    const from = start + "-----BEGIN".length;
    const end = searched.next(labelEnd, from);
    if (searched.isUnfinished(end)) return searched.wait(labelEnd);
    const label = text.slice(from, end);
    if (!text.startsWith("-----", end) || !/(?:PRIVATE|SECRET) KEY/.test(label)) return undefined;
    const mark = `-----END${label}-----`;
    const last = text.indexOf(mark, end);
    if (last >= 0) return { start, end: last + mark.length };
    return searched.isUnfinished(text.length)
      ? searched.begin(start, new RegExp(mark), true)
      : { start, end: text.length };
  };
}

/** The first option of a command that has a password attached. */
function attached(option: string): Value {
  const pattern = new RegExp(`\\s${option}(?=[^${B}-])|[\\n|;&]`, "g");
  const password = until(`[${B}]`);
  return (searched, from) => {
    const at = searched.next(pattern, from);
    // The last character may be the space before the option.
    if (searched.isUnfinished(at + 1)) return searched.wait(/\S/);
    return searched.text.startsWith(option, at + 1) ? password(searched, at + 3, from) : undefined;
  };
}

/** Credentials with a scheme before them: in a command, a known scheme stays, and Digest has no secret. */
function credentials(kind: "command" | "document"): Value {
  const scheme = sticky("(?:bearer|basic|token)(?=\\s)");
  const digest = sticky("digest(?!\\w)");
  const [blanks, known, line] = [gap(1), until(BARE), until(LINE)];
  return (searched, start, hint) => {
    const end = scheme(searched, start);
    if (end === undefined) {
      return kind === "command" && digest(searched, start) !== undefined
        ? undefined
        : line(searched, start, hint);
    }
    const from = blanks(searched, end);
    if (from === undefined) return undefined;
    return kind === "command"
      ? known(searched, from, hint)
      : { start, end: line(searched, from, hint)?.end ?? end };
  };
}

/**
 * A rule whose parts lead from its hint to its value. In an expression, ` *` and ` +` match white space of any length.
 */
function rule(name: string, parts: readonly (string | Step)[], value: Value): SecretRule {
  const steps = parts.flatMap((part) => {
    if (typeof part !== "string") return [part];
    return part.split(/( [*+])/).filter((text) => text !== "").map((text) =>
      text === " *" ? gap(0) : text === " +" ? gap(1) : sticky(text)
    );
  });
  return {
    name,
    find(searched, hint) {
      let at: number | undefined = hint;
      for (const step of steps) {
        at = step(searched, at);
        if (at === undefined) return undefined;
      }
      return value(searched, at, hint);
    },
  };
}

/** Tokens by their hints: the minimum length including the hint, and the characters that end a token. */
const TOKENS: readonly (readonly [name: string, least: number, end: string, ...hints: string[]])[] = [
  ["github-token", 24, "\\W", "ghp_", "gho_", "ghu_", "ghs_", "ghr_"],
  ["github-token", 31, "\\W", "github_pat_"],
  ["gitlab-token", 26, "[^\\w-]", "glpat-"],
  ["slack-token", 15, "[^\\w-]", "xoxb-", "xoxa-", "xoxp-", "xoxr-", "xoxs-"],
  ["google-key", 39, "[^\\w-]", "aiza"],
  ["google-key", 25, "[^\\w.-]", "ya29."],
  ["model-key", 23, "[^\\w-]", "sk-"],
  ["payment-key", 24, "\\W", "sk_live_", "sk_test_", "rk_live_", "rk_test_"],
  ["npm-token", 40, "\\W", "npm_"],
];
const AWS_KEY_IDS = ["akia", "asia", "abia", "acca"];

const PASSWORD = "pass(?:word|wd|phrase)";
/** Names of secrets. `key` counts only at the end of a longer name. */
const NAME = `(?:${PASSWORD}|pwd|secret|token|(?<=(?:api|access|account|private)[_-]?)key)`;
// In a command, PWD is the working directory. In a connection string, after a semicolon, PWD is a password.
const WORKING_DIRECTORY = `(?-i:(?<=(?<![A-Za-z0-9_;])(?:OLD)?)PWD=["']?[/~$])`;

const configValue = (except: string) =>
  rule("config-value", [`${except}${NAME}["']?[ \\t]{0,40}(?:=>|:=|[:=])[ \\t]{0,40}(?=\\S)`], setting());

const FLAG = rule("flag-password", [
  "(?:(?<=-)(?:pass(?:word|wd)?|pwd|token|secret)|(?<=-api[-_]?)key)",
  equalsOrGap(),
], argument());

const ASSIGNMENT = rule("env-assignment", [
  `(?:(?-i:(?<![A-Za-z0-9]))(?:${PASSWORD}|secret|token|credentials?|auth)` +
  `|(?<=(?-i:(?<![A-Za-z0-9]))(?:api|access|private)_?)key|(?<=_)pwd)(?=[_=])`,
  upTo("=", "[^\\w\\u017f\\u212a]", 0),
], argument());

/** `{ "name": "DB_PASSWORD", "value": "..." }`, the form in which JSON and YAML describe containers. */
const NAMED_VALUE = rule("named-value", [
  ({ text }, at) =>
    /(?<!\w)name["']?:\s{0,40}["']?[a-z0-9_.-]{0,64}$/i.test(text.slice(Math.max(0, at - 200), at))
      ? at
      : undefined,
  `${NAME}[a-z0-9_]{0,40}?["']?(?=[\\s,]|["']?value["']?:) *,? *["']?value["']?: *["']?`,
], until(`["',}${B}]`));

/** `-P` is the port, but it is masked because users confuse the two options. */
const mysql = (program: string) =>
  ["-p", "-P"].map((option) => rule("mysql-p-attached", [`${START}${program}${END}`], attached(option)));

function catalog(named: readonly SecretRule[], kind: "command" | "document"): Catalog {
  return {
    ...Object.fromEntries(
      ["pass", "pwd", "secret", "token", "key", "credential"].map((hint) => [hint, named]),
    ),
    auth: [
      ...named,
      rule("auth-header", [`${START}authorization["']? *[:=] *["']?(?=[^\\s"'])`], credentials(kind)),
    ],
    cookie: [
      rule("cookie", [`${START}cookie["']?[ \\t]{0,40}[:=][ \\t]{0,40}["']?(?=[^\\s"'])`], until(LINE)),
    ],
    bearer: [rule("bearer-token", [`${START}bearer[ \\t]{1,40}`], until("[^A-Za-z0-9._~+/=-]", 12))],
    login: [rule("netrc", [`${START}login +\\S{1,128} +password +`], until(`[${B}]`))],
    "://": [
      rule("uri-userinfo", ["(?<=[a-z0-9+.-])://", upTo(":", `[/:@"'<>\x60${B}]`, 0)], uriPassword()),
      // Without `/` and `@`, the password may contain quotes.
      rule("uri-userinfo", ["://", upTo(":", `[/:@${B}]`, 0)], followedBy("@", `[@/${B}]`)),
    ],
    "-u": [
      rule("curl-user", [
        "(?-i:(?<=(?:^|\\s)-?)-u(?:ser)?)",
        equalsOrGap(),
        upTo(":", `[:${B}]`),
      ], argument()),
    ],
    mysql: mysql("mysql(?:dump|admin)?"),
    mariadb: mysql("mariadb(?:-dump)?"),
    eyj: [
      rule("jwt", [
        `${START}(?=(?-i:eyJ))`,
        upTo(".", "[^\\w-]", 8),
        upTo(".", "[^\\w-]", 8),
      ], withHint(until("[^\\w-]", 8))),
    ],
    ...Object.fromEntries(
      TOKENS.flatMap(([name, least, end, ...hints]) =>
        hints.map((hint) => [hint, [rule(name, [START], until(end, least))]])
      ),
    ),
    ...Object.fromEntries(AWS_KEY_IDS.map((hint) => [
      hint,
      [rule("aws-key-id", [`${START}(?=(?-i:A[A-Z0-9]{19})${END})`], until("[^A-Z0-9]"))],
    ])),
    "hooks.slack.com/": [
      rule("webhook-url", ["hooks\\.slack\\.com/(?=[a-z]{1,64}/)"], until("[^A-Za-z0-9/]", 22)),
    ],
    sig: [rule("signed-url", ["(?<=[?&](?:x-amz-|x-goog-)?)sig(?:nature)?="], until(`[&"'<>${B}]`))],
    "-----begin": [rule("private-key-block", ["(?=(?-i:-----BEGIN))"], keyBlock())],
  };
}

/**
 * The rules for commands, their output and audit texts. If two rules find a value at the same place, the
 * class of the first rule counts.
 */
export const COMMANDS: Catalog = catalog(
  [FLAG, ASSIGNMENT, NAMED_VALUE, configValue(`(?!${WORKING_DIRECTORY})`)],
  "command",
);

/** The rules for files and for texts that models read. */
export const DOCUMENTS: Catalog = catalog([configValue(""), FLAG, ASSIGNMENT, NAMED_VALUE], "document");

/** A secret, or the beginning of one, whose end is not in the text yet. */
export interface Open {
  /** The start of the secret; absent if it has not begun. */
  readonly secret?: number;
  /**
   * Matches the text up to the end of the secret. If the secret has not begun, nothing is known before a
   * match.
   */
  readonly rest: RegExp;
  /** Whether this is a secret regardless of the following text. */
  readonly isCertain: boolean;
}

/** Results of shorter searches are not remembered, because repeating the search is as fast. */
const MIN_REMEMBERED = 64;

/** A text, and the results of the searches in it. */
export class Searched {
  readonly text: string;
  /** Set by a rule whose result depends on the text that follows. */
  open: Open | undefined;
  readonly #isWhole: boolean;
  #found: Map<RegExp, { from: number; at: number }> | undefined;

  /** @param isWhole whether no text follows */
  constructor(text: string, isWhole = true) {
    this.text = text;
    this.#isWhole = isWhole;
  }

  /** The next match of a global pattern, or the end of the text. */
  next(pattern: RegExp, from: number): number {
    const known = this.#found?.get(pattern);
    if (known !== undefined && from >= known.from && from <= known.at) return known.at;
    pattern.lastIndex = from;
    const at = pattern.exec(this.text)?.index ?? this.text.length;
    if (at - from > MIN_REMEMBERED) (this.#found ??= new Map()).set(pattern, { from, at });
    return at;
  }

  /** Whether a search reached the end of the text although more text may follow. */
  isUnfinished(at: number): boolean {
    return !this.#isWhole && at >= this.text.length;
  }

  /** Records that a secret may begin after the text. */
  wait(rest: RegExp): undefined {
    this.open = { rest, isCertain: false };
  }

  /** Records that a secret begins in the text and may go on after it. */
  begin(secret: number, rest: RegExp, isCertain = false): undefined {
    this.open = { secret, rest, isCertain };
  }
}
