import assert from "node:assert/strict";
import { outputText } from "./output_text.ts";

const FFFD = "\ufffd";

Deno.test.each([
  { name: "an empty output", bytes: [], text: "" },
  { name: "ASCII", bytes: [0x61, 0x0a], text: "a\n" },
  { name: "two bytes", bytes: [0xc3, 0xa9], text: "é" },
  { name: "three bytes", bytes: [0xe2, 0x82, 0xac], text: "€" },
  { name: "four bytes", bytes: [0xf0, 0x9f, 0x92, 0xa9], text: "💩" },
  { name: "a byte order mark, kept", bytes: [0xef, 0xbb, 0xbf, 0x61], text: "\ufeffa" },
  { name: "NUL, kept", bytes: [0x00], text: "\0" },
  { name: "the highest code point", bytes: [0xf4, 0x8f, 0xbf, 0xbf], text: "\u{10ffff}" },
  { name: "a lone tail byte", bytes: [0x61, 0x80, 0x62], text: `a${FFFD}b` },
  { name: "a cut sequence, one mark a byte", bytes: [0xe2, 0x82], text: FFFD + FFFD },
  { name: "a cut sequence before text", bytes: [0xf0, 0x9f, 0x92, 0x61], text: FFFD.repeat(3) + "a" },
  { name: "an overlong slash", bytes: [0xc0, 0xaf], text: FFFD + FFFD },
  { name: "an overlong three-byte form", bytes: [0xe0, 0x80, 0xaf], text: FFFD.repeat(3) },
  { name: "a surrogate", bytes: [0xed, 0xa0, 0x80], text: FFFD.repeat(3) },
  { name: "a code point that is too high", bytes: [0xf4, 0x90, 0x80, 0x80], text: FFFD.repeat(4) },
  { name: "bytes that never occur", bytes: [0xff, 0xfe, 0xf5], text: FFFD.repeat(3) },
  {
    name: "valid text between broken bytes",
    bytes: [0xff, 0xc3, 0xa9, 0xff, 0x61],
    text: `${FFFD}é${FFFD}a`,
  },
])("outputText() keeps or repairs $name", ({ bytes, text }) => {
  assert.equal(outputText(Uint8Array.from(bytes)), text);
});

Deno.test("outputText() gives one mark for each of a million broken bytes", () => {
  assert.equal(outputText(new Uint8Array(1_000_000).fill(0xff)).length, 1_000_000);
});

Deno.test("outputText() agrees with TextDecoder on every valid code point", () => {
  let text = "";
  for (let code = 0; code <= 0x10ffff; code += code < 0x10000 ? 1 : 257) {
    if (code < 0xd800 || code > 0xdfff) text += String.fromCodePoint(code);
  }
  assert.equal(outputText(new TextEncoder().encode(text)), text);
});
