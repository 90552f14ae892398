/**
 * The operator's redaction rules: the `redact` block of a service's config.
 *
 * @module
 */
import * as z from "@zod/zod";
import { RE2JS } from "re2js";
import { AppError, errorText } from "../errors.ts";
import type { Place } from "./catalog.ts";

/** A rule of the operator, applied after the built-in ones. */
interface RedactPattern {
  readonly name: string;
  /** RE2; when it has a group named `secret`, only that group is masked. */
  readonly regex: string;
}

/** The block; absent means the built-in rules alone. */
export interface RedactConfig {
  /** Applied after the built-in rules, in this order. */
  readonly patterns?: readonly RedactPattern[];
  /** True turns the built-in rules off. */
  readonly disable_defaults?: boolean;
}

/** Checks a {@linkcode RedactConfig}; unknown keys are refused. */
export const redactConfig: z.ZodType<RedactConfig> = z.strictObject({
  patterns: z.array(z.strictObject({
    name: z.string().regex(/^[a-zA-Z0-9._-]{1,64}$/, "must be 1 to 64 of a-z A-Z 0-9 . _ -")
      .describe("shown in the mark [REDACTED:<name>]"),
    regex: z.string().min(1).describe("RE2 pattern; a group named secret limits what is masked"),
  })).exactOptional().describe("rules applied after the built-in ones"),
  disable_defaults: z.boolean().exactOptional().describe("true turns the built-in rules off"),
});

const MARK_START = "[REDACTED:";

/** A rule of the operator, ready for use. */
export class OwnRule {
  /** Whether nothing in the expression can match a line break; `false` when that is not plain to see. */
  readonly staysInLine: boolean;
  readonly #mark: string;
  readonly #pattern: RE2JS;
  readonly #secretGroup: number;

  /** @throws the library's error when the expression is not RE2 */
  constructor({ name, regex }: RedactPattern) {
    this.#pattern = RE2JS.compile(regex);
    this.#secretGroup = this.#pattern.namedGroups()["secret"] ?? 0;
    this.#mark = `${MARK_START}${name}]`;
    this.staysInLine = staysInLine(regex);
  }

  /** The matches in their order; they do not overlap. */
  *matches(text: string): Generator<Place & { readonly secret: Place }> {
    const matcher = this.#pattern.matcher(text);
    while (matcher.find()) {
      // A secret group that took no part in the match leaves the whole match to mask.
      const group = matcher.start(this.#secretGroup) < 0 ? 0 : this.#secretGroup;
      const secret = { start: matcher.start(group), end: matcher.end(group) };
      yield { start: matcher.start(), end: matcher.end(), secret };
    }
  }

  /** The text with a mark in place of each secret; what is masked already stays. */
  apply(text: string): string {
    let masked = "";
    let copied = 0;
    for (const { secret: { start, end } } of this.matches(text)) {
      if (start === end || text.startsWith(MARK_START, start)) continue;
      masked += text.slice(copied, start) + this.#mark;
      copied = end;
    }
    return copied === 0 ? text : masked + text.slice(copied);
  }
}

/**
 * The rules of the operator, in the order in which they are applied.
 *
 * @throws {AppError} `invalid_config` that names every pattern that is not RE2
 */
export function compileOwnRules({ patterns = [] }: RedactConfig): readonly OwnRule[] {
  const problems: string[] = [];
  const rules = patterns.flatMap((pattern, index) => {
    try {
      return [new OwnRule(pattern)];
    } catch (error) {
      problems.push(`redact.patterns[${index}].regex: ${errorText(error)}`);
      return [];
    }
  });
  if (problems.length > 0) throw new AppError("invalid_config", problems.join("\n"));
  return rules;
}

function staysInLine(regex: string): boolean {
  const classes = /\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*\]/g;
  const isNarrow = (text: string) =>
    text.startsWith("[^") ? /\\[ns]/.test(text) : !/\\[nsDWHVPpx0-7rvf]|[\n\r]|\[:\^|space/.test(text);
  const rest = regex.replace(classes, (found) => isNarrow(found) ? "c" : "\n");
  return !/\n|\\[nsDWHVPpCQx0-7rvf]|\(\?[A-Za-z]*s/.test(rest);
}
