import { cutText, escapeCharacter, ODD } from "@gateway/shared/text";

/** HTML that is safe to send. Create it only from our own text, and all other HTML with {@linkcode markup}. */
export class Html {
  readonly #text: string;

  constructor(text: string) {
    this.#text = text;
  }

  toString(): string {
    return this.#text;
  }
}

/** Text is escaped; `undefined` and `false` are empty. */
export type HtmlValue = Html | string | number | undefined | false | readonly HtmlValue[];

/**
 * A template whose values are escaped, for text between tags and attributes in double quotes only: never inside of
 * `<script>` or `<style>`, for names, or for URLs of others. The formatter would change a template called `html`.
 */
export function markup(parts: TemplateStringsArray, ...values: readonly HtmlValue[]): Html {
  return new Html(parts.reduce((text, part, index) => text + render(values[index - 1]) + part));
}

function render(value: HtmlValue): string {
  if (value === undefined || value === false) return "";
  if (value instanceof Html) return value.toString();
  return typeof value === "object" ? value.map(render).join("") : escapeHtml(String(value));
}

const ENTITIES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
  "`": "&#96;",
  // A parser replaces or drops these.
  "\0": "&#xfffd;",
  "\r": "&#13;",
};

export function escapeHtml(text: string): string {
  return text.toWellFormed().replace(/[&<>"'`\0\r]/g, (character) => ENTITIES[character] ?? "");
}

/** `2026-01-02 03:04:05 UTC` */
export function formatUtc(ms: number): string {
  const date = new Date(ms);
  if (Number.isNaN(date.getTime())) return "at an unknown time";
  return date.toISOString().replace("T", " ").replace(/\.\d{3}Z$/, " UTC");
}

/** `1 min 12 s`, `2 h`, `3 days 4 h`. Part of the pages' script, so it uses nothing outside of itself. */
export function formatDuration(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  const minutes = Math.floor(seconds / 60);
  const hours = Math.floor(minutes / 60);
  const days = Math.floor(hours / 24);
  const pair = (big: string, small: number, unit: string) => small === 0 ? big : `${big} ${small} ${unit}`;
  if (minutes === 0) return `${seconds} s`;
  if (hours === 0) return pair(`${minutes} min`, seconds % 60, "s");
  if (days === 0) return pair(`${hours} h`, minutes % 60, "min");
  return pair(days === 1 ? "1 day" : `${days} days`, hours % 24, "h");
}

/** `61,440` */
export function formatCount(count: number): string {
  return count.toLocaleString("en-US");
}

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
 * @param limit UTF-16 units; the rest is counted
 */
export function showText(text: string, { limit = Infinity }: { readonly limit?: number } = {}): Html {
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
        // A line end is marked and also ends the line.
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

/**
 * Counts the characters that could deceive a reader.
 * @returns `odd`: the invisible ones, the most frequent first; `foreign`: the number of visible ones that are not ASCII
 */
export function findSuspiciousCharacters(text: string) {
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
