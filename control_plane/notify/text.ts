import { cutText, visibleText } from "@gateway/shared/text";

// Renderers drop blanks at the start, take four for a code block, and show a run of them as one.
const LOST_BLANK = /^ | (?= )/g;

/** The start of a text, at most `maxLength` UTF-16 units of it, with a note that says so where something is cut. */
export function cutWithNote(text: string, maxLength: number): string {
  const head = cutText(text, maxLength);
  return head === text ? text : `${head}… [TRUNCATED: ${head.length} of ${text.length} characters]`;
}

/**
 * Text of unknown origin as one line in which everything shows: controls, bidirectional marks, invisible
 * letters and odd blanks are written out. What is longer than `maxLength` is cut.
 */
export function plainLine(text: string, maxLength: number): string {
  return cutWithNote(visibleText(text), maxLength);
}

/**
 * A line as Markdown that renders as the line itself: CommonMark's own characters, those of the usual extensions,
 * and what would begin a list get a backslash.
 *
 * Not prevented: a client that makes bare addresses clickable. Such a link shows where it leads.
 */
export function escapeMarkdown(line: string): string {
  return line
    // Without "(" a card's {{DATE(…)}} is text too.
    .replace(/[\\`*_[\]()#~>|<!&]/g, "\\$&")
    .replace(/^( *)([-+])/, "$1\\$2")
    .replace(/^( *\d+)\./, "$1\\.")
    .replace(LOST_BLANK, "\u00a0");
}

/**
 * A line as HTML that renders as the line itself. An ampersand that no character reference can begin at stays:
 * so a client that shows the source instead still shows `a && b` as it is.
 */
export function escapeHtml(line: string): string {
  return line
    .replace(/[<>]|&(?=[#A-Za-z])/g, (character) => {
      return character === "<" ? "&lt;" : character === ">" ? "&gt;" : "&amp;";
    })
    .replace(LOST_BLANK, "\u00a0");
}
