// The catalog of secrets: how passwords, keys and tokens appear in commands, output, files and messages. A
// rule is tried only at its hints. Every step of a rule is bounded, or is a search that remembers its last
// result. Therefore the time is linear in the length of the text, even for a text that an attacker designed
// to be slow.

import {
  ahead,
  argument,
  B,
  credentials,
  element,
  END,
  equalsOrGap,
  followedBy,
  gap,
  keyBlock,
  LINE,
  nextItem,
  option,
  type Place,
  type Searched,
  setting,
  START,
  type Step,
  sticky,
  until,
  upTo,
  uriPassword,
  type Value,
  withHint,
} from "./steps.ts";

/** One form of a secret of a class. */
export interface SecretRule {
  /** The class: shown in the mark and in counts. */
  readonly name: string;
  readonly find: (searched: Searched, hint: number) => Place | undefined;
}

/** The rules by hint, in lower case. */
export type Catalog = Readonly<Record<string, readonly SecretRule[]>>;

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
  ["slack-token", 30, "[^\\w-]", "xapp-"],
  ["model-key", 40, "\\W", "gsk_"],
  ["registry-token", 32, "[^\\w-]", "dckr_pat_", "glrt-"],
  ["registry-token", 60, "[^\\w-]", "pypi-"],
  ["vault-token", 28, "[^\\w-]", "hvs.", "hvb."],
  ["cloud-token", 36, "\\W", "dop_v1_", "shpat_", "glsa_", "whsec_"],
  ["age-key", 60, "[^A-Za-z0-9-]", "age-secret-key-1"],
];
const AWS_KEY_IDS = ["akia", "asia", "abia", "acca"];

const PASSWORD = "pass(?:word|wd|phrase)";
/** "Password" in the languages of operators. */
const FOREIGN = "contrase(?:\u00f1|n\u0303?|ni)a|passwort|kennwort|senha|(?<=mot[ _-]de[ _-])passe" +
  "|clave (?:secreta|privada|de (?:acceso|cifrado|api))";
const KEY_KINDS =
  "api|access|account|private|secret|encryption|signing|master|shared|license|ssh|auth|app|session" +
  "|cookie|hmac|jwt|webhook|deploy";
/** A quote in JSON that is itself in a JSON string, at any depth. */
const QUOTE = `\\\\{0,7}["']`;
/** Names of secrets. `key` and `pass` count only at the end of a longer name. */
const NAME = `(?:${PASSWORD}|pwd|secreto?|token|(?<=[a-z0-9][_.])pass|(?<=(?:${KEY_KINDS})[_-]?)key` +
  `|(?<=client-)key-data|(?<=["'])(?:pass|auth|credentials?)(?=${QUOTE}[ \\t]{0,40}[:=]>?[ \\t]{0,40}${QUOTE})|${FOREIGN})`;
/** The end of a name after the word that makes it secret. */
const SUFFIX = "(?:[_-]?\\d{1,4}|_(?:base|hash|value|prod|old|new))?";
// In a command, PWD is the working directory. In a connection string, after a semicolon, PWD is a password.
const WORKING_DIRECTORY = `(?-i:(?<=(?<![A-Za-z0-9_;])(?:OLD)?)PWD=["']?[/~$])`;

/** `pass` as a whole name: before a colon only as a key, because `pass:` also occurs in sentences. */
const PASS =
  "(?-i:(?<=(?<![^\\n{,;&?(|])[ \\t]{0,40}(?:- )?)[Pp]ass(?=[ \\t]{0,40}[:=])|(?<![\\w.-])pass(?==))" +
  "[ \\t]{0,40}[:=][ \\t]{0,40}";
/** A value with a letter and a digit or symbol, unlike words, counts and paths. It may be a number with a unit. */
const LOOKS_SECRET = `(?=["']?(?!\\d[\\d.,:+tz-]{0,40}[a-z%]{0,9}(?:[\\s,;"']|$))[^\\s,;"'/]{6})` +
  `(?=["']?[^\\s,;"'/]{0,60}[a-z])(?=["']?[^\\s,;"'/]{0,60}[^a-z\\s,;"'/.:_()-])`;

const configValue = (except: string) => [
  rule("config-value", [
    `${except}${NAME}${SUFFIX}(?:${QUOTE})?[ \\t]{0,40}(?:=>|:=|[:=]|%3[ad])[ \\t]{0,40}(?:\\[\\s{0,40}(?=${QUOTE}))?(?=\\S)`,
  ], setting(`[,;"'${B}]`)),
  rule("config-value", [PASS, LOOKS_SECRET], setting(`[,;"'${B}]`)),
  // A ConfigMap, as `kubectl describe` prints it.
  rule("config-value", [
    `${NAME}${SUFFIX}:(?=\\r?\\n)`,
    ahead("\\r?\\n----\\r?\\n", 8),
  ], until("\\n{1,3}(?=\\n(?:[^\\n]{1,120}\\n[=-]{4}\\n|Events:))")),
  rule("config-value", [
    `(?<=(?:<|\\\\u003c|&lt;)(?:\\w[^<>]{0,80}\\s(?:name|key)=["'])?[\\w.:-]{0,60})${NAME}[\\w.:-]{0,40}["']?`,
    ahead("(?:\\s[^<>]{0,200})?(?<!/)(?:>|\\\\u003e|&gt;)", 210),
    " *(?:<!\\[CDATA\\[)?",
  ], element()),
];

const FLAG_NAME = `(?:(?<=-)(?:pass(?:word|wd|phrase)?|pwd|token|secret)|(?<=-(?:${KEY_KINDS})[-_]?)key)`;
const FLAGS = [
  rule("flag-password", [FLAG_NAME, equalsOrGap()], argument()),
  rule("flag-password", [FLAG_NAME], nextItem()),
];

const ASSIGNMENT = rule("env-assignment", [
  `(?:(?-i:(?<![A-Za-z0-9]))(?:${PASSWORD}|secret|token|credentials?|auth)` +
  `|(?<=(?-i:(?<![A-Za-z0-9]))(?:api|access|private)_?)key|(?<=_)(?:pwd|pass))(?=[_=])`,
  upTo("=", "[^\\w\\u017f\\u212a]", 0),
], argument());

/** `{ "name": "DB_PASSWORD", "value": "..." }`, the form in which JSON and YAML describe containers. */
const NAMED_VALUE = rule("named-value", [
  ({ text }, at) =>
    /(?<!\w)(?:name|key)\\{0,7}["']?\s{0,40}[:=]\s{0,40}\\{0,7}["']?[a-z0-9_.-]{0,64}$/i
        .test(text.slice(Math.max(0, at - 200), at))
      ? at
      : undefined,
  `${NAME}[a-z0-9_]{0,40}?(?:${QUOTE})?(?=[\\s,]|(?:${QUOTE})?value(?:${QUOTE})?[:=]) *,? *` +
  `(?:${QUOTE})?value(?:${QUOTE})? *[:=] *(?=\\S)`,
], setting(`["',}${B}]`));

/** `-P` is the port, but it is masked because users confuse the two options. */
const mysql = (program: string) =>
  ["-p", "-P"].map((name) =>
    rule("mysql-p-attached", [`${START}${program}${END}`, option(name, `[^${B}-]`)], until(`[${B}]`))
  );

function catalog(named: readonly SecretRule[], kind: "command" | "document"): Catalog {
  return {
    ...Object.fromEntries(
      ["pass", "pwd", "secret", "token", "key", "credential", "contrase", "kennwort", "senha", "clave "].map((
        hint,
      ) => [hint, named]),
    ),
    auth: [
      ...named,
      rule("auth-header", [`${START}authorization["']? *[:=] *["']?(?=[^\\s"'])`], credentials(kind)),
    ],
    cookie: [
      rule("cookie", [`${START}cookie["']?[ \\t]{0,40}[:=][ \\t]{0,40}["']?(?=[^\\s"'])`], until(LINE)),
    ],
    bearer: [rule("bearer-token", [`${START}bearer[ \\t]{1,40}`], until("[^A-Za-z0-9._~+/=-]", 12))],
    sshpass: [rule("flag-password", [`${START}sshpass +-p *`], argument())],
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
    "redis-cli": [
      rule("flag-password", [`${START}redis-cli${END}`, option("-a", "\\s"), gap(1)], argument()),
    ],
    eyj: [
      rule("jwt", [
        `${START}(?=(?-i:eyJ))`,
        upTo(".", "[^\\w-]", 8),
        upTo(".", "[^\\w-]", 8),
      ], withHint(until("[^\\w-]", 8))),
    ],
    "sg.": [
      rule("mail-key", [`${START}(?-i:SG)\\.`, upTo(".", "[^\\w-]", 16)], withHint(until("[^\\w-]", 16))),
    ],
    hf_: [rule("model-key", [`${START}hf_`], withHint(until("[^A-Za-z0-9]", 30)))],
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
  [...FLAGS, ASSIGNMENT, NAMED_VALUE, ...configValue(`(?!${WORKING_DIRECTORY})`)],
  "command",
);

/** The rules for files and for texts that models read. */
export const DOCUMENTS: Catalog = catalog(
  [...configValue(""), ...FLAGS, ASSIGNMENT, NAMED_VALUE],
  "document",
);
