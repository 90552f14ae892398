/**
 * The bound on what a tool tells.
 *
 * @module
 */

/** The longest text of a tool, in UTF-16 units, with the line that tells of the cut. */
export const MAX_RESULT = 4000;

/**
 * A text that is too long without its middle: two thirds of the beginning, one third of the end, and between
 * them a line with the numbers of omitted and of all characters. A text of at most `max` is left as it is.
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

/** Half of a surrogate pair is no text. */
function withoutHalf(text: string, side: "start" | "end"): string {
  if (side === "end") return /[\ud800-\udbff]$/.test(text) ? text.slice(0, -1) : text;
  return /^[\udc00-\udfff]/.test(text) ? text.slice(1) : text;
}
