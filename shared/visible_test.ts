import assert from "node:assert/strict";
import fc from "fast-check";
import { cutText, shortenText, visibleJson, visibleText } from "./visible.ts";

Deno.test.each([
  { name: "leaves printable text", text: 'ls -l "é日😀" \\ | wc', shown: 'ls -l "é日😀" \\ | wc' },
  { name: "shows escape sequences", text: "\x1b]0;owned\x07", shown: String.raw`\x1b]0;owned\x07` },
  { name: "shows line ends and tabs", text: "a\r\n\tb\0", shown: String.raw`a\x0d\x0a\x09b\x00` },
  { name: "shows DEL and C1", text: "\x7f\x9b31m", shown: String.raw`\x7f\x9b31m` },
  { name: "shows bidi controls", text: "\u202egpj\u2069", shown: String.raw`\u{202e}gpj\u{2069}` },
  { name: "shows zero width characters", text: "a\u200bb\ufeff", shown: String.raw`a\u{200b}b\u{feff}` },
  { name: "shows the soft hyphen as a code point", text: "a\u00adb", shown: String.raw`a\u{ad}b` },
  { name: "shows separators", text: "\u2028\u2029", shown: String.raw`\u{2028}\u{2029}` },
  { name: "shows tag characters", text: "\u{e0041}", shown: String.raw`\u{e0041}` },
  {
    name: "shows letters that show nothing",
    text: "a\u3164\ufe0f\u2800",
    shown: String.raw`a\u{3164}\u{fe0f}\u{2800}`,
  },
  { name: "shows private use", text: "\ue000", shown: String.raw`\u{e000}` },
  { name: "shows odd blanks", text: "al\u00a0ice \u3000", shown: String.raw`al\xa0ice \u{3000}` },
  {
    name: "shows towers of marks",
    text: "e\u0301\u0302\u0303",
    shown: "e\u0301\u0302" + String.raw`\u{303}`,
  },
  { name: "shows a mark on nothing", text: "\u0301a", shown: String.raw`\u{301}a` },
  { name: "shows lone surrogates", text: "\udc00", shown: String.raw`\u{dc00}` },
])("visibleText() $name", ({ text, shown }) => {
  assert.equal(visibleText(text), shown);
});

Deno.test("visibleText() leaves nothing that a terminal would act on", () => {
  fc.assert(fc.property(fc.string({ unit: "binary" }), (text) => {
    assert.doesNotMatch(visibleText(text), /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/u);
  }));
});

Deno.test("visibleJson() keeps the value, and leaves nothing that a terminal would act on", () => {
  fc.assert(fc.property(fc.jsonValue(), fc.string({ unit: "binary" }), (value, text) => {
    for (const json of [JSON.stringify({ value, [text]: text }), JSON.stringify({ value, text }, null, 2)]) {
      const shown = visibleJson(json);
      assert.deepEqual(JSON.parse(shown), JSON.parse(json));
      assert.doesNotMatch(shown, /[\p{C}\p{Zl}\p{Zp}]/u);
    }
  }));
});

Deno.test("cutText() and shortenText() leave what is short, and no half of a character", () => {
  const cut = (text: string, limit: number) => [cutText(text, limit), shortenText(text, limit)];
  assert.deepEqual(cut("abc", 3), ["abc", "abc"]);
  assert.deepEqual(cut("abc", 2), ["ab", "ab…"]);
  assert.deepEqual(cut("a😀", 2), ["a", "a…"]);
  assert.deepEqual(cut("a😀", 3), ["a😀", "a😀"]);
});
