import assert from "node:assert/strict";
import fc from "fast-check";
import { quoteText } from "./quote.ts";

Deno.test.each([
  { name: "leaves plain text", text: "web01", quoted: '"web01"' },
  { name: "quotes nothing", text: "", quoted: '""' },
  { name: "escapes quotes and backslashes", text: '"\\', quoted: String.raw`"\"\\"` },
  {
    name: "uses the short escapes",
    text: "\x07\b\f\n\r\t\v",
    quoted: String.raw`"\a\b\f\n\r\t\v"`,
  },
  { name: "writes other controls in hex", text: "\0\x1b[2J\x7f", quoted: String.raw`"\x00\x1b[2J\x7f"` },
  { name: "writes C1 controls as code points", text: "\x85\x9b", quoted: String.raw`"\u0085\u009b"` },
  { name: "leaves printable Unicode", text: "café 日本 €", quoted: '"café 日本 €"' },
  { name: "leaves printable astral characters", text: "😀", quoted: '"😀"' },
  { name: "escapes separators", text: "\u00a0\u2028\u2029", quoted: String.raw`"\u00a0\u2028\u2029"` },
  {
    name: "escapes bidi and zero width",
    text: "\u202e\u200b\ufeff",
    quoted: String.raw`"\u202e\u200b\ufeff"`,
  },
  { name: "escapes astral format characters", text: "\u{e0001}", quoted: String.raw`"\U000e0001"` },
  { name: "replaces lone surrogates", text: "a\ud800b", quoted: '"a\ufffdb"' },
])("quoteText() $name", ({ text, quoted }) => {
  assert.equal(quoteText(text), quoted);
});

Deno.test("quoteText() gives one printable line that ends at its own quote only", () => {
  fc.assert(fc.property(fc.string({ unit: "binary" }), (text) => {
    assert.match(quoteText(text), /^"(?:[^"\\\p{C}\p{Zl}\p{Zp}]|\\.)*"$/u);
  }));
});
