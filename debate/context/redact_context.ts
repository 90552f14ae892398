/**
 * Masks secrets in what models get to read, in tool results and in what is stored of them: what looks like one, and
 * the secrets that this service itself was given.
 *
 * @module
 */
import { finish, type Steps } from "@gateway/shared/clock";
import { findSecrets, type SecretSpan } from "./secret_rules.ts";

/** How many secrets of each class were masked. */
export type RedactionCounts = Readonly<Record<string, number>>;

/** A text whose secrets are masked. */
export interface RedactedText {
  readonly text: string;
  /** The number of secrets by class; a class without secrets is absent. */
  readonly counts: RedactionCounts;
}

/** Masks secrets as `[REDACTED]`; long texts are processed in steps. */
export interface ContextRedactor {
  (text: string): RedactedText;
  inSteps(text: string): Steps<RedactedText>;
}

const MARK = "[REDACTED]";
const SPANS_PER_STEP = 1000;

/**
 * Makes a redactor.
 *
 * @param ownSecrets secrets of this service, masked wherever they stand; short ones are left alone, for they are
 * likely to be words
 */
export function createContextRedactor(ownSecrets: readonly string[]): ContextRedactor {
  const secrets = [...new Set(ownSecrets)].filter((secret) => secret.length >= 6)
    .toSorted((a, b) => b.length - a.length);
  function* inSteps(text: string): Steps<RedactedText> {
    const counts: Record<string, number> = {};
    let masked = text;
    for (const secret of secrets) {
      const parts = masked.split(secret);
      if (parts.length > 1) counts["own-secret"] = (counts["own-secret"] ?? 0) + parts.length - 1;
      masked = parts.join(MARK);
      yield;
    }
    return { text: yield* mask(masked, yield* findSecrets(masked), counts), counts };
  }
  return Object.assign((text: string) => finish(inSteps(text)), { inSteps });
}

/** Overlapping spans become one mark, of the class of the first. Text that is already masked is left as it is. */
function* mask(text: string, spans: readonly SecretSpan[], counts: Record<string, number>): Steps<string> {
  const parts: string[] = [];
  let copied = 0;
  let [start, end, name] = [0, 0, ""];
  const flush = () => {
    if (end === start || text.slice(start, end) === MARK) return;
    counts[name] = (counts[name] ?? 0) + 1;
    parts.push(text.slice(copied, start), MARK);
    copied = end;
  };
  for (const [index, span] of spans.entries()) {
    if (index % SPANS_PER_STEP === 0) yield;
    if (span.start < end) {
      end = Math.max(end, span.end);
      continue;
    }
    flush();
    ({ start, end, name } = span);
  }
  flush();
  return copied === 0 ? text : parts.join("") + text.slice(copied);
}

export function addCounts(all: readonly RedactionCounts[]): RedactionCounts {
  const sum: Record<string, number> = {};
  for (const counts of all) {
    for (const [name, count] of Object.entries(counts)) sum[name] = (sum[name] ?? 0) + count;
  }
  return sum;
}

/** The secrets among the settings, including those within URLs, both as they are and URL-encoded. */
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
