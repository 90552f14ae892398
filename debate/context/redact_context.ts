/**
 * Masks secrets in what models get to read, in tool results and in what is stored of them: the rules of
 * `shared/redact`, those for files and configuration, and the secrets that this service itself was given.
 *
 * @module
 */
import type { RedactPattern } from "@gateway/shared/redact/model";
import { createRedactor } from "@gateway/shared/redact/redact";

/** How many secrets of each class were masked. */
export type RedactionCounts = Readonly<Record<string, number>>;

/** A text without its secrets. */
export interface RedactedText {
  readonly text: string;
  /** Classes without any are absent. */
  readonly counts: RedactionCounts;
}

/** Masks secrets as `[REDACTED]`. */
export type ContextRedactor = (text: string) => RedactedText;

const MARK = "[REDACTED]";
const NAMED_MARK = /\[REDACTED:([a-zA-Z0-9._-]{1,64})\]/g;

const SECRET_KEY =
  "(?:password|passwd|passphrase|pwd|secret|token|api[_-]?key|access[_-]?key|account[_-]?key|private[_-]?key)";

/** A value between two quotes of a kind, or up to a blank, a comma or a semicolon. */
const QUOTED = [
  ["double", `"(?P<secret>(?:[^"\\\\]|\\\\.)+)"`],
  ["single", `'(?P<secret>(?:[^'\\\\]|\\\\.)+)'`],
  ["bare", `(?P<secret>[^\\s,;"'\`\\[{>=][^\\s,;"']*)`],
] as const;

const RULES: readonly RedactPattern[] = [
  // -----BEGIN PGP PRIVATE KEY BLOCK-----, and keys whose lines are joined by \n as in JSON.
  {
    name: "private-key-block",
    regex: "(?s)-----BEGIN [A-Z0-9 ]*(?:PRIVATE|SECRET) KEY[A-Z ]*-----(?:.*?-----END [A-Z0-9 ]+-----|.*)",
  },
  {
    name: "auth-header",
    regex: `(?i)\\b(?:proxy-)?authorization["']?\\s*[:=]\\s*["']?(?P<secret>[^\\s"'][^\\r\\n"']*)`,
  },
  {
    name: "cookie",
    regex: `(?i)\\b(?:set-)?cookie["']?[ \\t]*[:=][ \\t]*["']?(?P<secret>[^\\s"'][^\\r\\n"']*)`,
  },
  { name: "bearer-token", regex: "(?i)\\bbearer[ \\t]+(?P<secret>[A-Za-z0-9._~+/=-]{12,})" },
  // Passwords with / or @ in them.
  { name: "uri-userinfo", regex: "[a-zA-Z][a-zA-Z0-9+.-]*://[^/\\s:@\"'<>`]*:(?P<secret>[^\\s\"'<>`]+)@" },
  // { "name": "DB_PASSWORD", "value": "..." }, as containers are described in JSON and YAML.
  {
    name: "named-value",
    regex:
      `(?i)\\bname["']?:\\s*["']?[a-z0-9_.-]*${SECRET_KEY}[a-z0-9_]*["']?\\s*,?\\s*["']?value["']?:\\s*["']?(?P<secret>[^\\s"',}]+)`,
  },
  ...QUOTED.map(([, value]) => ({
    name: "config-value",
    regex: `(?i)${SECRET_KEY}["']?[ \\t]*(?:=>|:=|[:=])[ \\t]*${value}`,
  })),
  { name: "netrc", regex: "(?i)\\blogin\\s+\\S+\\s+password\\s+(?P<secret>\\S+)" },
  { name: "google-key", regex: "\\b(?:AIza[0-9A-Za-z_-]{35}|ya29\\.[0-9A-Za-z_-]{20,})" },
  { name: "model-key", regex: "\\bsk-[A-Za-z0-9_-]{20,}" },
  { name: "payment-key", regex: "\\b(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{16,}" },
  { name: "npm-token", regex: "\\bnpm_[A-Za-z0-9]{36}" },
  { name: "webhook-url", regex: "hooks\\.slack\\.com/(?P<secret>[A-Za-z]+/[A-Za-z0-9/]{20,})" },
  {
    name: "signed-url",
    regex: "(?i)[?&](?:sig|signature|x-amz-signature|x-goog-signature)=(?P<secret>[^&\\s\"'<>]+)",
  },
];

/**
 * Compiles the rules.
 *
 * @param ownSecrets secrets of this service, masked wherever they stand; short ones are left alone, for they are
 * likely to be words
 */
export function createContextRedactor(ownSecrets: readonly string[]): ContextRedactor {
  const maskFiles = createRedactor({ disable_defaults: true, patterns: RULES });
  const maskCommands = createRedactor(undefined);
  const secrets = [...new Set(ownSecrets)].filter((secret) => secret.length >= 6)
    .toSorted((a, b) => b.length - a.length);
  return (text) => {
    const counts: Record<string, number> = {};
    const withoutOwn = secrets.reduce(
      (masked, secret) => masked.replaceAll(secret, "[REDACTED:own-secret]"),
      text,
    );
    const masked = maskCommands(maskFiles(withoutOwn)).replaceAll(NAMED_MARK, (_mark, name: string) => {
      counts[name] = (counts[name] ?? 0) + 1;
      return MARK;
    });
    return { text: masked, counts };
  };
}

/** The sums, class by class. */
export function addCounts(all: readonly RedactionCounts[]): RedactionCounts {
  const sum: Record<string, number> = {};
  for (const counts of all) {
    for (const [name, count] of Object.entries(counts)) sum[name] = (sum[name] ?? 0) + count;
  }
  return sum;
}

/** The secrets among the settings, also those within URLs, as they are and as they stand in a URL. */
export function ownSecrets(
  settings: Readonly<{
    HUB_TOKEN: string;
    ASSIST_TOKEN: string;
    WEB_PASSWORD: string;
    DATABASE_URL: string;
    PROMETHEUS_URL: string;
    LOKI_URL: string;
    ELASTICSEARCH_URL: string;
  }>,
): readonly string[] {
  const { HUB_TOKEN, ASSIST_TOKEN, WEB_PASSWORD, DATABASE_URL } = settings;
  const urls = [DATABASE_URL, settings.PROMETHEUS_URL, settings.LOKI_URL, settings.ELASTICSEARCH_URL];
  const passwords = urls.filter((url) => URL.canParse(url)).map((url) => new URL(url).password);
  const decoded = passwords.map((password) => {
    try {
      return decodeURIComponent(password);
    } catch {
      return password;
    }
  });
  return [HUB_TOKEN, ASSIST_TOKEN, WEB_PASSWORD, DATABASE_URL, ...passwords, ...decoded].filter((secret) =>
    secret !== ""
  );
}
