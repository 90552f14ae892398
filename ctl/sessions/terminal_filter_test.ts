import assert from "node:assert/strict";
import fc from "fast-check";
import { createTerminalFilter } from "./terminal_filter.ts";

const filter = (...pieces: string[]) => pieces.map(createTerminalFilter()).join("");

Deno.test.each<[name: string, text: string, shown: string]>([
  ["text, line ends, tabs and backspaces", "ä 漢 😀\r\n\tx\b", "ä 漢 😀\r\n\tx\b"],
  ["colors", "\x1b[1;38;5;9mred\x1b[38:2::1:2:3m\x1b[m", "\x1b[1;38;5;9mred\x1b[38:2::1:2:3m\x1b[m"],
  [
    "cursor movement and erasing",
    "\x1b[2J\x1b[H\x1b[3;4Hx\x1b[K\x1b[2A",
    "\x1b[2J\x1b[H\x1b[3;4Hx\x1b[K\x1b[2A",
  ],
  ["erasing the scrollback", "a\x1b[3Jb", "ab"],
  ["the clipboard (OSC 52)", "a\x1b]52;c;cm0gLXJmIC8=\x07b", "ab"],
  ["the clipboard, ended by ST", "a\x1b]52;c;cm0gLXJmIC8=\x1b\\b", "ab"],
  [
    "the title (OSC 0), a link (OSC 8) and a file (OSC 1337)",
    "\x1b]0;t\x07\x1b]8;;http://x\x07y\x1b]1337;File=\x07",
    "y",
  ],
  ["a title without its end", "a\x1b]0;hidden\r\nstill", "a"],
  ["a title that another sequence interrupts", "\x1b]0;hidden\x1b[0mshown", "0;hidden\x1b[0mshown"],
  ["a title that CAN interrupts", "\x1b]0;hidden\x18shown", "0;hidden\\x18shown"],
  ["DCS, PM, APC and SOS", "\x1bPq#0\x1b\\a\x1b^x\x1b\\b\x1b_Gx\x1b\\c\x1bXx\x1b\\d", "abcd"],
  [
    "queries of device, cursor, mode and size",
    "\x1b[c\x1b[>c\x1b[=c\x1b[6n\x1b[?6n\x1b[?1$p\x1b[18t\x1b[>q\x1bZ",
    "",
  ],
  ["the title as an answer, and answerback", "\x1b[21t\x05", "\\x05"],
  [
    "modes: mouse, paste, alternate screen, hidden cursor",
    "\x1b[?1000h\x1b[?2004h\x1b[?1049h\x1b[?25l\x1b[20h",
    "",
  ],
  ["keys of xterm", "\x1b[>4;1m\x1b[>1u\x1b[=1;1u", ""],
  ["printing, repeating and scrolling", "\x1b[5i\x1b[999999999b\x1b[9T\x1b[1;1;1;1;1T", ""],
  ["reset, character sets and keypad", "\x1bc\x1b(0\x1b#8\x1b=\x1b%G", ""],
  ["shift out, bell and form feed", "\x0e\x07\x0c", "\\x0e\\x07\\x0c"],
  ["C1 controls", "\x9b6n\x9d0;t\x9c\x90\x85", "\\x9b6n\\x9d0;t\\x9c\\x90\\x85"],
  ["bidirectional and invisible characters", "a\u202eb\u200bc\u2066", "a\\u{202e}b\\u{200b}c\\u{2066}"],
  ["an escape in a sequence", "\x1b[1\x1b[31mx", "1\x1b[31mx"],
  ["a parameter of many digits", `\x1b[${"9".repeat(65)}mx`, "x"],
])("the filter of %s", (_name, text, shown) => {
  assert.equal(filter(text), shown);
  assert.equal(filter(...text), shown, "one character at a time");
});

Deno.test("a control string that is too long is shown, and delays nothing after it", () => {
  const long = "x".repeat(5000);
  assert.equal(filter(`\x1b]0;${long}`, "y"), `0;${long}y`);
});

Deno.test("whatever a host prints, and however it is divided, only allowed sequences remain", () => {
  const part = fc.oneof(
    fc.constantFrom(
      "\x1b",
      "[",
      "]",
      "?",
      "52;",
      "c",
      "n",
      "m",
      "J",
      "3",
      "\x07",
      "\\",
      "\x9b",
      "P",
      "\x18",
      " ",
      "\n",
    ),
    fc.string({ unit: "binary", maxLength: 3 }),
  );
  fc.assert(
    fc.property(fc.array(part, { maxLength: 40 }), (pieces) => {
      const rest = filter(...pieces).replaceAll("\x1b[", "<").replaceAll(
        /<(?:[\d;:]*[A-HKXdfm]|[0-2]?J)|[\b\t\n\r]/g,
        "",
      );
      assert.doesNotMatch(rest, /[\p{C}]/u);
    }),
    { numRuns: 2000 },
  );
});
