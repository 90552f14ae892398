import assert from "node:assert/strict";
import { createPaint, exactLine, safeLine, safeText, wrap } from "./terminal.ts";

Deno.test.each([
  { name: "lines and tabs as they are", text: "a\n\tb", shown: "a\n\tb" },
  { name: "Windows line ends as line ends", text: "a\r\nb", shown: "a\nb" },
  { name: "a carriage return, which would hide what is before it", text: "a\rb", shown: "a\\x0db" },
  { name: "escape sequences", text: "\x1b[2J\x9b", shown: "\\x1b[2J\\x9b" },
  { name: "text that runs backwards", text: "\u202egpj", shown: "\\u{202e}gpj" },
  { name: "a hypothesis's state", text: "H-1 [active]", shown: "H-1 [active]" },
])("safeText() shows $name", ({ text, shown }) => {
  assert.equal(safeText(text), shown);
});

Deno.test("safeLine() gives one line that fits", () => {
  assert.equal(safeLine("a\n b\x07c", 20), "a b\\x07c");
  assert.equal(safeLine("a".repeat(30), 10), `${"a".repeat(9)}…`);
});

Deno.test.each([
  { name: "text that runs backwards", text: "a\u202eb", shown: "a\\u{202e}b" },
  { name: "a line end", text: "a\nb", shown: "a\\x0ab" },
  { name: "a blank that is not a space", text: "a\u00a0b", shown: "a\\xa0b" },
  { name: "a filler that is drawn as nothing", text: "a\u3164b", shown: "a\\u{3164}b" },
  { name: "several spaces", text: "a  b", shown: "a  b" },
  { name: "the beginning of what is too long", text: "a".repeat(30), shown: `${"a".repeat(9)}…` },
  {
    name: "no more than fits, written out",
    text: "aaaa\u202e\u202e",
    shown: `aaaa\\u{20…`,
  },
])("exactLine() shows $name", ({ text, shown }) => {
  assert.equal(exactLine(text, 10), shown.slice(0, 10));
});

Deno.test.each([
  { name: "at words", text: "one two three", lines: ["one two", "three"] },
  { name: "not inside of long words", text: "a verylongword", lines: ["a", "verylongword"] },
  { name: "list entries below their text", text: "- one two three", lines: ["- one", "  two", "  three"] },
  { name: "lines of their own", text: "a\n\nb", lines: ["a", "", "b"] },
])("wrap() breaks $name", ({ text, lines }) => {
  assert.deepEqual(wrap(text, 8), lines);
});

Deno.test("createPaint() leaves text alone where there is no colour", () => {
  assert.equal(createPaint(false)("red", "x"), "x");
  assert.equal(createPaint(true)("red", "x"), "\x1b[31mx\x1b[0m");
});
