/**
 * What secrets look like in files, configuration, commands and messages, and where they are in a text.
 *
 * A text is searched once for words that appear next to secrets, and rules are tried only there. They are the
 * platform's expressions: RE2 in JavaScript takes 10 s for a megabyte full of secrets. So that these stay
 * linear on text designed to be slow, repetitions are bounded, the end of a value is found by a search that
 * remembers where it has been, and a rule continues behind what it has found.
 *
 * @module
 */
import type { Steps } from "@gateway/shared/clock";

/** A secret's place in a text. */
export interface SecretSpan {
  readonly name: string;
  readonly start: number;
  readonly end: number;
}

/** A rule; it is tried wherever one of its hints occurs. */
interface SecretRule {
  readonly name: string;
  /** Sticky: from the hint up to where the secret begins. */
  readonly head: RegExp;
  /** What must precede the hint; matched against the 200 characters before it. */
  readonly before?: RegExp;
  readonly value: SecretValue;
}

/** The secret after a head; `undefined` when there is none. */
type SecretValue = (looked: LookedThrough, start: number) => Place | undefined;

interface Place {
  readonly start: number;
  readonly end: number;
}

/** A text, and what was found in it before. */
class LookedThrough {
  readonly text: string;
  readonly #found = new Map<RegExp, { from: number; at: number }>();

  constructor(text: string) {
    this.text = text;
  }

  /** The next match of a global one-character pattern, or the end of the text. */
  next(pattern: RegExp, from: number): number {
    const known = this.#found.get(pattern);
    if (known !== undefined && from >= known.from && from <= known.at) return known.at;
    pattern.lastIndex = from;
    const at = pattern.exec(this.text)?.index ?? this.text.length;
    this.#found.set(pattern, { from, at });
    return at;
  }
}

/** A secret that extends to a character that ends it, with at least `length` characters. */
function until(end: RegExp, length = 1): SecretValue {
  return (looked, start) => {
    const at = looked.next(end, start);
    return at - start >= length ? { start, end: at } : undefined;
  };
}

const LINE_END = /[\r\n]/g;
const QUOTES: Readonly<Record<string, RegExp>> = { '"': /"/g, "'": /'/g };

/**
 * A secret between two quotes of the same kind, or else as given. Without a closing quote it ends with its line.
 *
 * @param kind of a setting, which may have escapes, the quotes stay; an argument is masked with them
 */
function quotedOr(bare: SecretValue, kind: "setting" | "argument"): SecretValue {
  return (looked, start) => {
    const { text } = looked;
    const quote = QUOTES[text.charAt(start)];
    if (quote === undefined) return bare(looked, start);
    let end = looked.next(quote, start + 1);
    while (kind === "setting" && end < text.length && isEscaped(text, end, start)) {
      end = looked.next(quote, end + 1);
    }
    if (end === text.length) return { start, end: looked.next(LINE_END, start) };
    return kind === "setting" ? { start: start + 1, end } : { start, end: end + 1 };
  };
}

function isEscaped(text: string, at: number, start: number): boolean {
  let slashes = 0;
  while (at - slashes - 1 > start && text.charAt(at - slashes - 1) === "\\") slashes++;
  return slashes % 2 === 1;
}

const BLANK = /\s/g;
const BARE_SETTING = until(/[\s,;"']/g);
/** The value of a setting: up to a blank, a comma or a semicolon. */
const SETTING = quotedOr(
  (looked, start) => "[{>=`,;".includes(looked.text.charAt(start)) ? undefined : BARE_SETTING(looked, start),
  "setting",
);
const ARGUMENT = quotedOr(until(/[\s"']/g), "argument");
const REST_OF_LINE = until(/[\r\n"']/g);

const AT_SIGN = /@/g;
const URI_END = /[\s"'<>`]/g;

/** A password in a URI may contain `/` and `@`, so the last `@` ends it. */
const URI_PASSWORD: SecretValue = (looked, start) => {
  const end = looked.next(URI_END, start);
  if (looked.next(AT_SIGN, start) >= end) return undefined;
  const at = looked.text.lastIndexOf("@", end - 1);
  return at > start ? { start, end: at } : undefined;
};

const URI_PASSWORD_END = /[@\s/]/g;

/** A password in a URI with quotes in it, and neither `/` nor `@`. */
const QUOTED_URI_PASSWORD: SecretValue = (looked, start) => {
  const end = looked.next(URI_PASSWORD_END, start);
  return end > start && looked.text.charAt(end) === "@" ? { start, end } : undefined;
};

const KEY_END = /-----END[A-Z0-9 ]{1,64}-----/g;

/** A private key; one without its last line extends to the end of the text. */
const KEY_BLOCK: SecretValue = (looked, start) => {
  const at = looked.next(KEY_END, start);
  const mark = /^-----END[A-Z0-9 ]{1,64}-----/.exec(looked.text.slice(at, at + 80))?.[0] ?? "";
  return { start, end: at + mark.length };
};

const TOKEN_END = /[^\w-]/g;

/** A JSON web token: three parts separated by dots. */
const JWT: SecretValue = (looked, start) => {
  let end = start;
  for (let part = 0; part < 3; part++) {
    const from = part === 0 ? start : end + 1;
    end = looked.next(TOKEN_END, from);
    if (end - from < 8 || (part < 2 && looked.text.charAt(end) !== ".")) return undefined;
  }
  return { start, end };
};

const GOOGLE_TOKEN: SecretValue = (looked, start) => {
  const end = looked.next(TOKEN_END, start + 5);
  return end - start >= 25 ? { start, end } : undefined;
};

const WORD = /\W/g;
const UPPER = /[^A-Z0-9]/g;

const AWS_KEY_ID: SecretValue = (looked, start) => {
  const end = looked.next(UPPER, start);
  return end - start === 20 && !/\w/.test(looked.text.charAt(end)) ? { start, end } : undefined;
};

const MYSQL_OPTION = /\s-p(?=[^\s-])|[\n|;&]/g;

/** The first option `-p` of a command that has the password attached. */
const MYSQL_PASSWORD: SecretValue = (looked, from) => {
  const at = looked.next(MYSQL_OPTION, from);
  if (looked.text.slice(at + 1, at + 3) !== "-p") return undefined;
  const start = at + 3;
  return { start, end: looked.next(BLANK, start) };
};

function rule(name: string, head: string, value: SecretValue, flags = ""): SecretRule {
  return { name, head: new RegExp(head, `y${flags}`), value };
}

/** A token that begins with the hint and is not preceded by a letter. */
function token(name: string, end: RegExp, length: number): readonly SecretRule[] {
  return [rule(name, String.raw`(?<!\w)`, until(end, length))];
}

const PASSWORD = "pass(?:word|wd|phrase)";
/** Names of secrets; `key` only as the end of longer ones. */
const NAME = `(?:${PASSWORD}|pwd|secret|token|(?<=(?:api|access|account|private)[_-]?)key)`;

const NAMED = [
  rule(
    "config-value",
    String.raw`${NAME}["']?[ \t]{0,40}(?:=>|:=|[:=])[ \t]{0,40}(?=[^\s])`,
    SETTING,
    "i",
  ),
  rule(
    "flag-password",
    String.raw`(?:(?<=-)(?:pass(?:word|wd)?|pwd|token|secret)|(?<=-api[-_]?)key)(?:=|\s{1,40})`,
    ARGUMENT,
    "i",
  ),
  // PWD alone is the working directory; it means a password only as part of a longer name.
  rule(
    "env-assignment",
    String
      .raw`(?:(?<![a-z0-9])(?:${PASSWORD}|secret|token|credentials?|auth)|(?<=(?<![a-z0-9])(?:api|access|private)_?)key|(?<=_)pwd)(?:_[a-z0-9]{1,40}){0,4}=`,
    ARGUMENT,
    "i",
  ),
  // { "name": "DB_PASSWORD", "value": "..." }, as containers are described in JSON and YAML.
  {
    ...rule(
      "named-value",
      String.raw`${NAME}[a-z0-9_]{0,40}["']?\s{0,40},?\s{0,40}["']?value["']?:\s{0,40}["']?`,
      until(/[\s"',}]/g),
      "i",
    ),
    before: /(?<!\w)name["']?:\s{0,40}["']?[a-z0-9_.-]{0,64}$/i,
  },
];

/** Which rules are tried at which hint, in lower case. */
const RULES_BY_HINT: Readonly<Record<string, readonly SecretRule[]>> = {
  pass: NAMED,
  pwd: NAMED,
  secret: NAMED,
  token: NAMED,
  key: NAMED,
  credential: NAMED,
  auth: [
    ...NAMED,
    rule(
      "auth-header",
      String.raw`(?<!\w)authorization["']?\s{0,40}[:=]\s{0,40}["']?(?=[^\s"'])`,
      REST_OF_LINE,
      "i",
    ),
  ],
  cookie: [
    rule(
      "cookie",
      String.raw`(?<!\w)cookie["']?[ \t]{0,40}[:=][ \t]{0,40}["']?(?=[^\s"'])`,
      REST_OF_LINE,
      "i",
    ),
  ],
  bearer: [
    rule("bearer-token", String.raw`(?<!\w)bearer[ \t]{1,40}`, until(/[^A-Za-z0-9._~+/=-]/g, 12), "i"),
  ],
  login: [
    rule("netrc", String.raw`(?<!\w)login\s{1,40}\S{1,128}\s{1,40}password\s{1,40}`, until(BLANK), "i"),
  ],
  "://": [
    rule("uri-userinfo", String.raw`(?<=[a-z0-9+.-]):\/\/[^/\s:@"'<>\x60]{0,128}:`, URI_PASSWORD, "i"),
    rule("uri-userinfo", String.raw`:\/\/[^/\s:@]{0,128}:`, QUOTED_URI_PASSWORD),
  ],
  "-u": [rule("curl-user", String.raw`(?<=(?:^|\s)-?)-u(?:ser)?(?:=|\s{1,40})[^\s:]{1,128}:`, ARGUMENT)],
  mysql: [rule("mysql-p-attached", String.raw`(?<!\w)mysql(?:dump|admin)?(?!\w)`, MYSQL_PASSWORD, "i")],
  mariadb: [rule("mysql-p-attached", String.raw`(?<!\w)mariadb(?:-dump)?(?!\w)`, MYSQL_PASSWORD, "i")],
  eyj: [rule("jwt", String.raw`(?<!\w)(?=eyJ)`, JWT)],
  akia: [rule("aws-key-id", String.raw`(?<!\w)(?=AKIA)`, AWS_KEY_ID)],
  asia: [rule("aws-key-id", String.raw`(?<!\w)(?=ASIA)`, AWS_KEY_ID)],
  abia: [rule("aws-key-id", String.raw`(?<!\w)(?=ABIA)`, AWS_KEY_ID)],
  acca: [rule("aws-key-id", String.raw`(?<!\w)(?=ACCA)`, AWS_KEY_ID)],
  ...Object.fromEntries([..."pousr"].map((kind) => [`gh${kind}_`, token("github-token", WORD, 24)])),
  github_pat_: token("github-token", WORD, 31),
  "glpat-": token("gitlab-token", TOKEN_END, 26),
  ...Object.fromEntries([..."baprs"].map((kind) => [`xox${kind}-`, token("slack-token", TOKEN_END, 15)])),
  aiza: token("google-key", TOKEN_END, 39),
  "ya29.": [rule("google-key", String.raw`(?<!\w)(?=ya29\.)`, GOOGLE_TOKEN, "i")],
  "sk-": token("model-key", TOKEN_END, 23),
  sk_live_: token("payment-key", WORD, 24),
  sk_test_: token("payment-key", WORD, 24),
  rk_live_: token("payment-key", WORD, 24),
  rk_test_: token("payment-key", WORD, 24),
  npm_: token("npm-token", WORD, 40),
  "hooks.slack.com/": [
    rule("webhook-url", String.raw`hooks\.slack\.com\/(?=[a-z]{1,64}\/)`, until(/[^A-Za-z0-9/]/g, 22), "i"),
  ],
  sig: [
    rule(
      "signed-url",
      String.raw`(?<=[?&](?:x-amz-|x-goog-)?)sig(?:nature)?=`,
      until(/[&\s"'<>]/g),
      "i",
    ),
  ],
  // -----BEGIN PGP PRIVATE KEY BLOCK-----, and keys whose lines are joined by \n as in JSON.
  "-----begin": [
    rule(
      "private-key-block",
      "(?=-----BEGIN[A-Z0-9 ]{0,64}(?:PRIVATE|SECRET) KEY[A-Z ]{0,64}-----)",
      KEY_BLOCK,
    ),
  ],
};

const HINT = new RegExp(
  Object.keys(RULES_BY_HINT).map((hint) => hint.replaceAll(".", "\\.")).join("|"),
  "gi",
);
const LONGEST_HINT = Math.max(...Object.keys(RULES_BY_HINT).map(({ length }) => length));
/** How much of the text is searched in one step, in characters. */
const STEP = 32_768;
const BEFORE = 200;

/** Finds the secrets of a text, in the order of their beginnings; they may overlap. */
export function* findSecrets(text: string): Steps<readonly SecretSpan[]> {
  const looked = new LookedThrough(text);
  const spans: SecretSpan[] = [];
  /** The end of what each rule has found. */
  const done = new Map<SecretRule, number>();
  for (let from = 0; from < text.length; from += STEP) {
    const piece = text.slice(from, from + STEP + LONGEST_HINT - 1);
    HINT.lastIndex = 0;
    for (let hit = HINT.exec(piece); hit !== null && hit.index < STEP; hit = HINT.exec(piece)) {
      const at = from + hit.index;
      for (const rule of RULES_BY_HINT[hit[0].toLowerCase()] ?? []) {
        if (at < (done.get(rule) ?? 0)) continue;
        const place = find(rule, looked, at);
        if (place === undefined) continue;
        done.set(rule, place.end);
        insert(spans, { name: rule.name, ...place });
      }
      HINT.lastIndex = hit.index + 1;
    }
    yield;
  }
  return spans;
}

function find({ head, before, value }: SecretRule, looked: LookedThrough, at: number): Place | undefined {
  head.lastIndex = at;
  if (!head.test(looked.text)) return undefined;
  const start = head.lastIndex;
  if (before !== undefined && !before.test(looked.text.slice(Math.max(0, at - BEFORE), at))) return undefined;
  return value(looked, start);
}

/** Inserts a span in order; spans arrive nearly sorted, so the right place is close to the end. */
function insert(spans: SecretSpan[], span: SecretSpan): void {
  let at = spans.length;
  while (at > 0 && (spans[at - 1]?.start ?? 0) > span.start) at--;
  if (at === spans.length) spans.push(span);
  else spans.splice(at, 0, span);
}
