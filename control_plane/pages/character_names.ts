const NAMES: Readonly<Record<number, string>> = {
  0x00: "NULL",
  0x07: "BELL",
  0x08: "BACKSPACE",
  0x09: "TAB",
  0x0a: "LINE FEED",
  0x0b: "VERTICAL TAB",
  0x0c: "FORM FEED",
  0x0d: "CARRIAGE RETURN",
  0x1b: "ESCAPE",
  0x20: "SPACE",
  0x7f: "DELETE",
  0x85: "NEXT LINE",
  0x9b: "CONTROL SEQUENCE INTRODUCER",
  0xa0: "NO-BREAK SPACE",
  0xad: "SOFT HYPHEN",
  0x34f: "COMBINING GRAPHEME JOINER",
  0x61c: "ARABIC LETTER MARK",
  0x115f: "HANGUL CHOSEONG FILLER",
  0x1160: "HANGUL JUNGSEONG FILLER",
  0x180e: "MONGOLIAN VOWEL SEPARATOR",
  0x200b: "ZERO WIDTH SPACE",
  0x200c: "ZERO WIDTH NON-JOINER",
  0x200d: "ZERO WIDTH JOINER",
  0x200e: "LEFT-TO-RIGHT MARK",
  0x200f: "RIGHT-TO-LEFT MARK",
  0x2028: "LINE SEPARATOR",
  0x2029: "PARAGRAPH SEPARATOR",
  0x202a: "LEFT-TO-RIGHT EMBEDDING",
  0x202b: "RIGHT-TO-LEFT EMBEDDING",
  0x202c: "POP DIRECTIONAL FORMATTING",
  0x202d: "LEFT-TO-RIGHT OVERRIDE",
  0x202e: "RIGHT-TO-LEFT OVERRIDE",
  0x202f: "NARROW NO-BREAK SPACE",
  0x2060: "WORD JOINER",
  0x2066: "LEFT-TO-RIGHT ISOLATE",
  0x2067: "RIGHT-TO-LEFT ISOLATE",
  0x2068: "FIRST STRONG ISOLATE",
  0x2069: "POP DIRECTIONAL ISOLATE",
  0x2800: "BRAILLE PATTERN BLANK",
  0x3000: "IDEOGRAPHIC SPACE",
  0x3164: "HANGUL FILLER",
  0xfeff: "ZERO WIDTH NO-BREAK SPACE",
  0xffa0: "HALFWIDTH HANGUL FILLER",
};

const KINDS: readonly (readonly [RegExp, string])[] = [
  [/^\p{Cc}/u, "control character"],
  [/^[\u{e0000}-\u{e007f}]/u, "tag character"],
  [/^[\ufe00-\ufe0f\u{e0100}-\u{e01ef}]/u, "variation selector"],
  [/^\p{Cs}/u, "lone surrogate"],
  [/^\p{Co}/u, "private use character"],
  [/^\p{Cn}/u, "unassigned character"],
  [/^\p{Z}/u, "space"],
  [/^\p{M}/u, "combining mark"],
  [/^\p{Cf}/u, "format character"],
];

/** A code point in Unicode's notation: `U+202E`. */
export function codePointLabel(character: string): string {
  return `U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}`;
}

/** What a character is, for a reader who cannot see it: `U+202E RIGHT-TO-LEFT OVERRIDE`, `U+E0041 tag character`. */
export function describeCharacter(character: string): string {
  const name = NAMES[character.codePointAt(0) ?? 0] ??
    KINDS.find(([pattern]) => pattern.test(character))?.[1] ?? "invisible character";
  return `${codePointLabel(character)} ${name}`;
}
