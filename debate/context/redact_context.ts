import { type Clock, finish, finishInSlices, type Steps } from "@gateway/shared/clock";
import { maskSecrets } from "@gateway/shared/redact";
import type { Settings } from "../settings/config.ts";

export type RedactionCounts = Readonly<Record<string, number>>;

interface RedactedText {
  readonly text: string;
  /** The number of secrets by class. Classes without secrets are absent. */
  readonly counts: RedactionCounts;
}

/** Masks secrets as `[REDACTED]`. `inSteps` processes long texts without blocking. */
export interface ContextRedactor {
  (text: string): RedactedText;
  inSteps(text: string): Steps<RedactedText>;
}

const MARK = "[REDACTED]";

/**
 * Creates a redactor.
 *
 * @param ownSecrets secrets of this service. They are masked everywhere, except for short ones, which may be words.
 */
export function createContextRedactor(ownSecrets: readonly string[]): ContextRedactor {
  const secrets = [...new Set(ownSecrets)].filter((secret) => secret.length >= 6)
    .toSorted((a, b) => b.length - a.length);
  function* inSteps(original: string): Steps<RedactedText> {
    const counts: Record<string, number> = {};
    let masked = original;
    for (const secret of secrets) {
      const parts = masked.split(secret);
      if (parts.length > 1) counts["own-secret"] = (counts["own-secret"] ?? 0) + parts.length - 1;
      masked = parts.join(MARK);
      yield;
    }
    const text = yield* maskSecrets(masked, "documents", (name) => {
      counts[name] = (counts[name] ?? 0) + 1;
      return MARK;
    });
    return { text, counts };
  }
  return Object.assign((text: string) => finish(inSteps(text)), { inSteps });
}

/** The secrets in the settings, including passwords in URLs, both encoded and decoded. */
export function ownSecrets(settings: Settings): readonly string[] {
  const { HUB_TOKEN, ASSIST_TOKEN, WEB_PASSWORD, DATABASE_URL, ALERT_SECRET, ALERT_ANSWER_URL } = settings;
  const urls = [DATABASE_URL, settings.PROMETHEUS_URL, settings.LOKI_URL, settings.ELASTICSEARCH_URL];
  const passwords = urls.filter((url) => URL.canParse(url)).map((url) => new URL(url).password);
  const texts = [HUB_TOKEN, ASSIST_TOKEN, WEB_PASSWORD, DATABASE_URL, ALERT_SECRET, ALERT_ANSWER_URL];
  const encoded = [...passwords, ...webhookSecrets(ALERT_ANSWER_URL)];
  texts.push(...Object.values(settings.MODEL_KEYS), ...Object.values(settings.MCP_VARIABLES));
  return [...texts, ...encoded, ...encoded.map(decodePercent)].filter((secret) => secret !== "");
}

/** Shorter parts of a URL may be words. */
const MIN_URL_PART = 16;

/** The token of a chat's webhook is in its path or query. */
function webhookSecrets(text: string): readonly string[] {
  const url = URL.parse(text);
  if (url === null) return [];
  const path = url.pathname + url.search;
  return [path, url.pathname, ...path.split(/[/?&=]/)].filter(({ length }) => length >= MIN_URL_PART);
}

function decodePercent(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

const MIN_SECRET = 6;
/** For longer texts, the name of the field is not needed to recognize a secret. */
const MAX_NAMED = 500;

/** Masks the secrets of a value: in texts, in names, and texts whose field name marks them as secret. */
export function redactValue(value: unknown, redact: (text: string) => string): unknown {
  return finish(inSteps(value, function* (text) {
    yield;
    return redact(text);
  }));
}

export function redactLargeValue(value: unknown, redactor: ContextRedactor, clock: Clock): Promise<unknown> {
  const steps = inSteps(value, function* (text) {
    return (yield* redactor.inSteps(text)).text;
  });
  return finishInSlices(steps, clock);
}

function* inSteps(value: unknown, mask: (text: string) => Steps<string>): Steps<unknown> {
  if (typeof value === "string") return value.length < MIN_SECRET ? value : yield* mask(value);
  yield;
  if (Array.isArray(value)) {
    const members: unknown[] = [];
    for (const member of value) members.push(yield* inSteps(member, mask));
    return members;
  }
  if (typeof value !== "object" || value === null) return value;
  const entries: [string, unknown][] = [];
  for (const [key, member] of Object.entries(value)) {
    entries.push([
      yield* mask(key),
      typeof member === "string" ? yield* maskNamed(key, member, mask) : yield* inSteps(member, mask),
    ]);
  }
  return Object.fromEntries(entries);
}

function* maskNamed(name: string, text: string, mask: (text: string) => Steps<string>): Steps<string> {
  const masked = text.length < MIN_SECRET ? text : yield* mask(text);
  if (masked !== text || text.length > MAX_NAMED) return masked;
  const pair = JSON.stringify({ [name]: text });
  return (yield* mask(pair)) === pair ? text : MARK;
}
