// Masks secrets in text that is stored or shown: audit records, notifications. Decisions and execution always
// use the original text. Secrets without a recognizable form stay visible. The built-in rules take time
// linear in the text. A rule of the operator that must search far ahead for each match, such as `a(.*b)?`,
// can take longer.
import * as z from "@zod/zod";
import { RE2JS } from "re2js";
import { finish, type Steps } from "../clock.ts";
import { configError, errorText } from "../errors.ts";
import { type Catalog, COMMANDS, DOCUMENTS, type SecretRule } from "./catalog.ts";
import { type Open, type Place, Searched } from "./steps.ts";

/** The number of characters to search, or of secrets to mask, in one step. */
const STEP = 32_768;
const PLACES_PER_STEP = 1000;
const MARK_START = "[REDACTED:";
const MARK = /^\[REDACTED(?::[\w.-]{1,64})?\]$/;

/** A secret that a rule found from one of its hints. */
interface Found extends Place {
  readonly name: string;
  readonly hint: number;
}

/** The secrets in a text that may continue. */
export interface Findings {
  /** The secrets in the order of their starts; they may overlap. */
  readonly found: Found[];
  /** The secrets that depend on the text that follows, in the order of their hints. */
  readonly open: readonly (Open & { readonly name: string; readonly hint: number })[];
}

/** The kinds of texts: in commands, the working directory is not a secret. */
type TextKind = "commands" | "documents";

const CATALOGS: Readonly<Record<TextKind, Catalog>> = { commands: COMMANDS, documents: DOCUMENTS };
const HINTS = Object.keys(COMMANDS);
const HINT = new RegExp(HINTS.join("|").replaceAll(".", "\\."), "gi");
const LONGEST_HINT = Math.max(...HINTS.map(({ length }) => length));

/** In RE2, the long s and the Kelvin sign match s and k. */
function fold(text: string): string {
  return text.replace(/[\u017f\u212a]/g, (char) => char === "\u017f" ? "s" : "k");
}

/** Searches for secrets whose hints are between two positions of a text. */
export function* findSecrets(
  searched: Searched,
  kind: TextKind,
  from = 0,
  limit: number = searched.text.length,
): Steps<Findings> {
  const found: Found[] = [];
  const open: Findings["open"][number][] = [];
  /** The end of the last secret that each rule found. */
  let done: Map<SecretRule, number> | undefined;
  for (let base = from; base < limit; base += STEP) {
    const end = Math.min(base + STEP, limit) - base;
    const piece = fold(searched.text.slice(base, base + end + LONGEST_HINT - 1));
    HINT.lastIndex = 0;
    for (let hit = HINT.exec(piece); hit !== null && hit.index < end; hit = HINT.exec(piece)) {
      const hint = base + hit.index;
      for (const rule of CATALOGS[kind][hit[0].toLowerCase()] ?? []) {
        if (hint < (done?.get(rule) ?? 0)) continue;
        const place = rule.find(searched, hint);
        if (place !== undefined) {
          (done ??= new Map()).set(rule, place.end);
          insert(found, { name: rule.name, hint, ...place });
        } else if (searched.open !== undefined) {
          open.push({ name: rule.name, hint, ...searched.open });
          if (searched.open.secret !== undefined) (done ??= new Map()).set(rule, Infinity);
          searched.open = undefined;
        }
      }
      // Continue after the first character, because hints may overlap.
      HINT.lastIndex = hit.index + 1;
    }
    yield;
  }
  return { found, open };
}

/** Inserts in order. The places arrive nearly sorted, so the right index is close to the end. */
export function insert(found: Found[], place: Found): void {
  let at = found.length;
  while (at > 0 && (found[at - 1]?.start ?? 0) > place.start) at--;
  found.splice(at, 0, place);
}

/**
 * The text with a mark for each secret. Overlapping secrets are replaced by one mark with the class of the
 * first. Existing marks are kept.
 *
 * @param markOf called for each secret that is masked
 */
export function* maskSecrets(text: string, kind: TextKind, markOf: (name: string) => string): Steps<string> {
  // Return early, because most texts are short and have no hint.
  const from = text.length <= STEP ? fold(text).search(HINT) : 0;
  if (from < 0) return text;
  const { found } = yield* findSecrets(new Searched(text), kind, from);
  return found.length === 0 ? text : yield* maskFound(text, found, markOf);
}

/** Masks the secrets that were found. */
export function* maskFound(
  text: string,
  found: readonly Found[],
  markOf: (name: string) => string,
): Steps<string> {
  const parts: string[] = [];
  let copied = 0;
  let [start, end, name] = [0, 0, ""];
  const flush = () => {
    if (end === start || MARK.test(text.slice(start, end))) return;
    parts.push(text.slice(copied, start), markOf(name));
    copied = end;
  };
  for (const [index, place] of found.entries()) {
    if (index % PLACES_PER_STEP === 0) yield;
    if (place.start < end) {
      end = Math.max(end, place.end);
      continue;
    }
    flush();
    ({ start, end, name } = place);
  }
  flush();
  return copied === 0 ? text : parts.join("") + text.slice(copied);
}

/** The mark for a secret of a class. */
export function markOf(name: string): string {
  return `${MARK_START}${name}]`;
}

/** The `redact` block of a config. */
export interface RedactConfig {
  /** Applied after the built-in rules, in this order. */
  readonly patterns?: readonly { readonly name: string; readonly regex: string }[];
  readonly disable_defaults?: boolean;
}

/** Checks a {@linkcode RedactConfig}; unknown keys are rejected. */
export const redactConfig: z.ZodType<RedactConfig> = z.strictObject({
  patterns: z.array(z.strictObject({
    name: z.string().regex(/^[a-zA-Z0-9._-]{1,64}$/, "must be 1 to 64 of a-z A-Z 0-9 . _ -")
      .describe("name in the mark [REDACTED:<name>]"),
    regex: z.string().min(1).describe("RE2 pattern; a group named secret limits the masked part"),
  })).exactOptional().describe("rules applied after the built-in ones"),
  disable_defaults: z.boolean().exactOptional().describe("true turns the built-in rules off"),
});

/** Masks the secrets of a text. */
export type Redactor = (text: string) => string;

/**
 * Creates a redactor of the built-in rules, unless the config turns them off, and then the rules of the operator.
 *
 * @throws {AppError} `invalid_config` that names every pattern that is not RE2
 */
export function createRedactor(config: RedactConfig = {}): Redactor {
  const own = compileOwnRules(config);
  return (text) => {
    const masked = config.disable_defaults === true ? text : finish(maskSecrets(text, "commands", markOf));
    return own.reduce((result, rule) => rule.apply(result), masked);
  };
}

/** A compiled rule of the operator. */
export type OwnRule = ReturnType<typeof createOwnRule>;

/**
 * Compiles the rules of the operator.
 *
 * @throws {AppError} `invalid_config` that names every pattern that is not RE2
 */
export function compileOwnRules({ patterns = [] }: RedactConfig): readonly OwnRule[] {
  const problems: string[] = [];
  const rules = patterns.flatMap(({ name, regex }, index) => {
    try {
      return [createOwnRule(name, regex)];
    } catch (error) {
      problems.push(`redact.patterns[${index}].regex: ${errorText(error)}`);
      return [];
    }
  });
  if (problems.length > 0) throw configError(problems.join("\n"));
  return rules;
}

function createOwnRule(name: string, regex: string) {
  const pattern = RE2JS.compile(regex);
  const secretGroup = pattern.namedGroups()["secret"] ?? 0;
  /** The matches in their order, without overlaps. */
  function* matches(text: string) {
    const matcher = pattern.matcher(text);
    while (matcher.find()) {
      // If the pattern has no secret group, mask the whole match.
      const group = matcher.start(secretGroup) < 0 ? 0 : secretGroup;
      const secret = { start: matcher.start(group), end: matcher.end(group) };
      yield { start: matcher.start(), end: matcher.end(), secret };
    }
  }
  /** Masks each secret. Existing marks are kept. */
  const apply = (text: string): string => {
    let masked = "";
    let copied = 0;
    for (const { secret: { start, end } } of matches(text)) {
      if (start === end || text.startsWith(MARK_START, start)) continue;
      masked += text.slice(copied, start) + markOf(name);
      copied = end;
    }
    return copied === 0 ? text : masked + text.slice(copied);
  };
  return { staysInLine: staysInLine(regex), matches, apply };
}

/** Whether the expression obviously cannot match a line break. */
function staysInLine(regex: string): boolean {
  const classes = /\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*\]/g;
  const isNarrow = (text: string) =>
    text.startsWith("[^") ? /\\[ns]/.test(text) : !/\\[nsDWHVPpx0-7rvf]|[\n\r]|\[:\^|space/.test(text);
  const rest = regex.replace(classes, (found) => isNarrow(found) ? "c" : "\n");
  return !/\n|\\[nsDWHVPpCQx0-7rvf]|\(\?[A-Za-z]*s/.test(rest);
}
