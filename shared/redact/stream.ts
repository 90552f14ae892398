/**
 * Masks secrets in text that comes in pieces, as a command's output does: a secret is found wherever the pieces
 * end.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { createRedactStreams } from "@gateway/shared/redact/stream";
 *
 * const openStream = createRedactStreams(undefined);
 * const stream = openStream();
 * assert.equal(stream.push("a\n-----BEGIN PRIVATE KEY-----\nMIIE"), "a\n[REDACTED:private-key-block]");
 * assert.equal(stream.push("vg\n-----END PRIVATE KEY-----\nb\nc"), "\nb\n");
 * assert.equal(stream.end(), "c");
 * ```
 *
 * The pieces together are what `createRedactor` makes of the whole text, with two exceptions, both of which mask
 * more: a value whose quote is not closed within 16,384 characters is masked up to where it is, and so is a word of
 * that length, of which a beginning looks like a secret. Whole lines are given as soon as no secret can have begun
 * in them; of the rest, no more than those 16,384 characters wait for each rule.
 *
 * A rule of the operator that can't match a line break is found in lines up to that length. Of one that can, nobody
 * knows whether it has begun: text waits until there are 65,536 characters, and a secret of half as
 * many is found.
 *
 * @module
 */
import { compileRules } from "./compile_rules.ts";
import type { RedactConfig } from "./model.ts";
import { RuleStream } from "./rule_stream.ts";
import { WindowStream } from "./window_stream.ts";

/** A text that comes in pieces. */
export interface RedactStream {
  /** Takes the next piece; gives what is certain, of this one and of those before. */
  push(text: string): string;
  /** Gives what is left. */
  end(): string;
  /** Gives what is left of a text that was cut off, without what may be the beginning of a secret. */
  cut(): string;
}

/** Begins a text. */
export type OpenRedactStream = () => RedactStream;

/**
 * The rules of `createRedactor`, for texts that come in pieces.
 *
 * @throws {AppError} `invalid_config` that names every pattern that is not RE2
 */
export function createRedactStreams(config: RedactConfig | undefined): OpenRedactStream {
  const { builtIn, own } = compileRules(config);
  return () => {
    const stages: readonly (RuleStream | WindowStream)[] = [
      ...builtIn.map((rule) => new RuleStream(rule)),
      ...own.map((rule) => staysInLine(rule.rule.regex) ? new RuleStream(rule) : new WindowStream(rule)),
    ];
    const pass = (text: string, finish: (stage: RuleStream | WindowStream) => string) =>
      stages.reduce((masked, stage) => stage.push(masked) + finish(stage), text);
    return {
      push: (text) => pass(text, () => ""),
      end: () => pass("", (stage) => stage.end()),
      cut() {
        stages[0]?.trim();
        return pass("", (stage) => stage.cut());
      },
    };
  };
}

/** Whether an expression has nothing in it that a line break could match; `false` when that is not plain to see. */
function staysInLine(regex: string): boolean {
  const classes = /\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*\]/g;
  const isNarrow = (text: string) =>
    text.startsWith("[^") ? /\\[ns]/.test(text) : !/\\[nsDWHVPpx0-7rvf]|[\n\r]|\[:\^|space/.test(text);
  const rest = regex.replace(classes, (found) => isNarrow(found) ? "c" : "\n");
  return !/\n|\\[nsDWHVPpCQx0-7rvf]|\(\?[A-Za-z]*s/.test(rest);
}
