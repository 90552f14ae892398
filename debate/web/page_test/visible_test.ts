import { ODD } from "@gateway/shared/text";
import assert from "node:assert/strict";
import { codeOf, splitOdd } from "../page/visible.js";
import { PAGE_FILES } from "../page_files.ts";

Deno.test.each([
  { name: "nothing in plain text", text: "ls -l /tmp", parts: ["ls -l /tmp"] },
  { name: "text that runs backwards", text: "a\u202eb", parts: ["a", "\u202e", "b"] },
  {
    name: "two in a row, the last at the end",
    text: "\u200b\u2066",
    parts: ["", "\u200b", "", "\u2066", ""],
  },
  { name: "a tag outside of the first plane", text: "x\u{e0041}", parts: ["x", "\u{e0041}", ""] },
  { name: "an unpaired half of a character", text: "x\ud800y", parts: ["x", "\ud800", "y"] },
  { name: "a blank that is not a space", text: "a\u00a0b", parts: ["a", "\u00a0", "b"] },
  { name: "no line ends and tabs", text: "a\r\n\tb\nc", parts: ["a\n\tb\nc"] },
  { name: "a carriage return alone", text: "a\rb", parts: ["a", "\r", "b"] },
])("splitOdd() finds $name", ({ text, parts }) => {
  assert.deepEqual(splitOdd(text), parts);
});

Deno.test("codeOf() gives the usual form of a code point", () => {
  assert.deepEqual(["\r", "\u202e", "\u{e0041}", "\ud800"].map(codeOf), [
    "U+000D",
    "U+202E",
    "U+E0041",
    "U+D800",
  ]);
});

Deno.test("a browser gets the rule for odd characters that everything else here uses", async () => {
  const script = PAGE_FILES.get("/static/odd.js")?.text ?? "";
  const loaded = await import(`data:text/javascript,${encodeURIComponent(script)}`);
  assert.equal(loaded.ODD, ODD);
});
