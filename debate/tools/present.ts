/**
 * How text from outside becomes a tool's result.
 *
 * @module
 */
export type Redact = (text: string) => string;

// Escape sequences of terminals, then controls, format characters (bidi, zero width, tags), lone surrogates:
// they hide from the operator what the model reads.
// deno-lint-ignore no-control-regex -- it looks for control characters
const ESCAPES = /\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-~])/g;
const INVISIBLE = /(?![\n\t])[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;

/** Visible text without secrets, bounded. Redaction comes before the cut, which could split a secret. */
export function present(text: string, redact: Redact): string {
  return truncate(redact(visible(text)).trimEnd());
}

/** The text without control sequences and invisible characters. */
export function visible(text: string): string {
  return text.replace(/\r\n?/g, "\n").replace(ESCAPES, "").replace(INVISIBLE, "\ufffd");
}

/** The longest text of a tool, in UTF-16 units, including the line that reports the cut. */
export const MAX_RESULT = 4000;

/**
 * Removes the middle of a text that is too long: two thirds are from the beginning, one third from the end, and
 * between them is a line with the numbers of omitted and of all characters. A text of at most `max` is left as
 * it is.
 */
export function truncate(text: string, max: number = MAX_RESULT): string {
  if (text.length <= max) return text;
  const room = max - marker(text.length, text.length).length;
  const head = withoutHalf(text.slice(0, Math.floor(room * 2 / 3)), "end");
  const tail = withoutHalf(text.slice(text.length - (room - Math.floor(room * 2 / 3))), "start");
  return head + marker(text.length - head.length - tail.length, text.length) + tail;
}

function marker(omitted: number, total: number): string {
  return `\n[... ${omitted} of ${total} characters omitted ...]\n`;
}

/** Drops half of a surrogate pair at a cut. */
function withoutHalf(text: string, side: "start" | "end"): string {
  if (side === "end") return /[\ud800-\udbff]$/.test(text) ? text.slice(0, -1) : text;
  return /^[\udc00-\udfff]/.test(text) ? text.slice(1) : text;
}
