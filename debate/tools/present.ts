/**
 * How text from outside becomes a tool's result.
 *
 * @module
 */
import { truncate } from "./truncate.ts";

/** Masks secrets. */
export type Redact = (text: string) => string;

// Escape sequences of terminals, then controls, format characters (bidi, zero width, tags), lone surrogates:
// they hide text from the operator that the model reads.
// deno-lint-ignore no-control-regex -- control characters are what is looked for
const ESCAPES = /\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-~])/g;
const INVISIBLE = /(?![\n\t])[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;

/** Visible text only, without secrets, bounded. Redaction comes before the cut, which could halve a secret. */
export function present(text: string, redact: Redact): string {
  return truncate(redact(visible(text)).trimEnd());
}

/** The text without what terminals obey and eyes do not see. */
export function visible(text: string): string {
  return text.replace(/\r\n?/g, "\n").replace(ESCAPES, "").replace(INVISIBLE, "\ufffd");
}
