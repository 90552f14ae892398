import { cutText, escapeCharacter, ODD } from "@gateway/shared/text";
import { codePointLabel, describeCharacter } from "./character_names.ts";
import { type Html, markup } from "./html.ts";
import { formatCount } from "./text_format.ts";

/** A part of a text of unknown origin. */
type Segment =
  /** ASCII that is what it looks like. */
  | { readonly kind: "plain"; readonly text: string }
  /** What prints, yet may look like something else: a Cyrillic `а` beside a Latin `a`. */
  | { readonly kind: "foreign"; readonly text: string }
  /** One character that does not show itself, once or several times in a row. */
  | { readonly kind: "odd"; readonly character: string; readonly count: number };

/**
 * Alternatives: runs of one character that does not show itself; spaces that would go unseen at an edge, or push
 * the rest out of sight; the rest that is not ASCII.
 */
const SPECIAL = new RegExp(
  // The same character again need not be odd itself: the second of two marks at the start stands on the first.
  String.raw`(?<odd>${ODD})(?:(?=${ODD})\k<odd>)*|^ +| +$| {9,}|[^\0-\x7f]`,
  "gu",
);

/** Cuts a text into what can be shown as it is and what cannot. The segments together are the text. */
export function segmentText(text: string): readonly Segment[] {
  const segments: Segment[] = [];
  let end = 0;
  for (const match of text.matchAll(SPECIAL)) {
    if (match.index > end) segments.push({ kind: "plain", text: text.slice(end, match.index) });
    end = match.index + match[0].length;
    const character = match.groups?.["odd"] ?? (match[0].startsWith(" ") ? " " : undefined);
    if (character !== undefined) {
      segments.push({ kind: "odd", character, count: match[0].length / character.length });
      continue;
    }
    const last = segments.at(-1);
    if (last?.kind === "foreign") {
      segments[segments.length - 1] = { kind: "foreign", text: last.text + match[0] };
    } else segments.push({ kind: "foreign", text: match[0] });
  }
  if (end < text.length) segments.push({ kind: "plain", text: text.slice(end) });
  return segments;
}

/** How much of a text is shown. */
interface ShownTextOptions {
  /** UTF-16 units; what is longer is cut, and the rest is counted. */
  readonly limit?: number;
}

/**
 * A text of unknown origin with nothing hidden in it, in the order of its characters whatever their script:
 * what does not print is written out and marked, so that it differs from the same escape typed as text.
 */
export function showText(text: string, { limit = Infinity }: ShownTextOptions = {}): Html {
  const start = cutText(text, limit);
  const rest = text.length - start.length;
  return markup`<bdo dir="ltr" class="raw">${segmentText(start).map(showSegment)}</bdo>${
    rest > 0 && markup` <span class="rest">… ${formatCount(rest)} more characters</span>`
  }`;
}

function showSegment(segment: Segment): Html | string {
  switch (segment.kind) {
    case "plain":
      return segment.text;
    case "foreign":
      return markup`<span class="foreign" title="not ASCII: ${labels(segment.text)}">${segment.text}</span>`;
    case "odd": {
      const { character, count } = segment;
      const shown = character === " " ? "␣" : escapeCharacter(character);
      const times = count > 1 ? ` ×${count}` : "";
      return markup`<mark class="odd" title="${
        describeCharacter(character)
      }${times}">${shown}${times}</mark>${
        // The end of the line is marked, so that it is seen, and ends the line, so that scripts can be read.
        character === "\n" && "\n"}`;
    }
    default:
      return segment satisfies never;
  }
}

const MOST_LABELS = 8;

function labels(text: string): string {
  const all = [...text];
  return all.slice(0, MOST_LABELS).map(codePointLabel).join(" ") + (all.length > MOST_LABELS ? " …" : "");
}

/** What a reader should know of a text, beside what it says. */
interface Peculiarities {
  /** What does not show itself, by description, and how often it occurs; most frequent first. */
  readonly odd: readonly { readonly name: string; readonly count: number }[];
  /** How many characters are not ASCII, yet print. */
  readonly foreign: number;
}

/** Counts what a reader could be deceived by. */
export function findPeculiarities(text: string): Peculiarities {
  const counts = new Map<string, number>();
  let foreign = 0;
  for (const segment of segmentText(text)) {
    if (segment.kind === "foreign") foreign += [...segment.text].length;
    if (segment.kind !== "odd") continue;
    counts.set(segment.character, (counts.get(segment.character) ?? 0) + segment.count);
  }
  const odd = [...counts].sort(([, a], [, b]) => b - a)
    .map(([character, count]) => ({ name: describeCharacter(character), count }));
  return { odd, foreign };
}
