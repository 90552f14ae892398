import { cutText, escapeCharacter, ODD } from "@gateway/shared/text";
import type { JSX } from "preact";

/** The names of the characters that occur most often. */
const NAMES: Readonly<Record<number, string>> = {
  0x00: "NULL",
  0x08: "BACKSPACE",
  0x09: "TAB",
  0x0a: "LINE FEED",
  0x0d: "CARRIAGE RETURN",
  0x1b: "ESCAPE",
  0x20: "SPACE",
  0xa0: "NO-BREAK SPACE",
  0xad: "SOFT HYPHEN",
  0x200b: "ZERO WIDTH SPACE",
  0x200d: "ZERO WIDTH JOINER",
  0x202d: "LEFT-TO-RIGHT OVERRIDE",
  0x202e: "RIGHT-TO-LEFT OVERRIDE",
  0xfeff: "ZERO WIDTH NO-BREAK SPACE",
};

const KINDS: readonly (readonly [RegExp, string])[] = [
  [/^\p{Cc}/u, "control character"],
  [/^\p{Bidi_Control}/u, "bidirectional control"],
  [/^[\u{e0000}-\u{e007f}]/u, "tag character"],
  [/^[\ufe00-\ufe0f\u{e0100}-\u{e01ef}]/u, "variation selector"],
  [/^\p{Cs}/u, "lone surrogate"],
  [/^\p{Co}/u, "private use character"],
  [/^\p{Cn}/u, "unassigned character"],
  [/^\p{Z}/u, "space"],
  [/^\p{M}/u, "combining mark"],
  [/^\p{Cf}/u, "format character"],
];

function codePointLabel(character: string): string {
  return `U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}`;
}

/** `U+202E RIGHT-TO-LEFT OVERRIDE`, `U+E0041 tag character` */
function describeCharacter(character: string): string {
  const name = NAMES[character.codePointAt(0) ?? 0] ??
    KINDS.find(([pattern]) => pattern.test(character))?.[1] ?? "invisible character";
  return `${codePointLabel(character)} ${name}`;
}

type Segment =
  | { readonly kind: "plain"; readonly text: string }
  /** Visible characters that may look like others, such as a Cyrillic `а`. */
  | { readonly kind: "foreign"; readonly text: string }
  /** One invisible character, repeated. */
  | { readonly kind: "odd"; readonly character: string; readonly count: number };

/**
 * Matches invisible characters, also repeated ones, spaces at an edge, runs of spaces that could push the
 * rest out of view, and non-ASCII text.
 */
const SPECIAL = new RegExp(
  // The lookahead, because a combining mark after another one is not odd.
  String.raw`(?<odd>${ODD})(?:(?=${ODD})\k<odd>)*|^ +| +$| {9,}|[^\0-\x7f]`,
  "gu",
);

/** Splits a text into segments, which together are the text. */
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

/**
 * Text of unknown origin, left to right in any script, with invisible characters written out and marked.
 *
 * @param props.limit UTF-16 units; the rest is counted
 * @param props.lines for results and replies: line ends, tabs, spaces and visible letters of any script are unmarked
 */
export function VisibleText(
  { text, limit = Infinity, lines = false }: {
    readonly text: string;
    readonly limit?: number;
    readonly lines?: boolean;
  },
): JSX.Element {
  const start = cutText(text, limit);
  const rest = text.length - start.length;
  return (
    <>
      <bdo dir="ltr" class="raw">{(lines ? splitLines(start) : segmentText(start)).map(showSegment)}</bdo>
      {rest > 0 && (
        <>
          {" "}
          <span class="rest">{`… ${rest.toLocaleString("en-US")} more characters`}</span>
        </>
      )}
    </>
  );
}

const EVERY_ODD = new RegExp(`(${ODD})`, "gu");

function splitLines(text: string): readonly Segment[] {
  return text.replaceAll("\r\n", "\n").split(EVERY_ODD).map((part, index) =>
    index % 2 === 0 || part === "\n" || part === "\t"
      ? { kind: "plain", text: part }
      : { kind: "odd", character: part, count: 1 }
  );
}

function showSegment(segment: Segment): JSX.Element | string {
  switch (segment.kind) {
    case "plain":
      return segment.text;
    case "foreign":
      return <span class="foreign" title={`not ASCII: ${labels(segment.text)}`}>{segment.text}</span>;
    case "odd": {
      const { character, count } = segment;
      const times = count > 1 ? ` ×${count}` : "";
      return (
        <>
          <mark class="odd" title={`${describeCharacter(character)}${times}`}>
            {`${character === " " ? "␣" : escapeCharacter(character)}${times}`}
          </mark>
          {/* A line end is marked and also ends the line. */}
          {character === "\n" && "\n"}
        </>
      );
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

/**
 * Counts the characters that could deceive a reader.
 * @returns `odd`: the invisible ones, the most frequent first; `foreign`: the number of visible ones that are not ASCII
 */
export function findSuspiciousCharacters(
  text: string,
): { readonly odd: readonly { readonly name: string; readonly count: number }[]; readonly foreign: number } {
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
