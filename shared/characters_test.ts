import assert from "node:assert/strict";
import fc from "fast-check";
import { hasUnseen, isUnsafe } from "./characters.ts";

Deno.test.each([
  ...["alice", "al-ice@example.com", "host:web01", "brøker", "日本", "e\u0301", "Zoë", "😀", ""].map((
    text,
  ) => ({
    name: JSON.stringify(text),
    text,
    unseen: false,
    unsafe: false,
  })),
  { name: "a space", text: "al ice", unseen: false, unsafe: true },
  { name: "a no-break space", text: "al\u00a0ice", unseen: false, unsafe: true },
  { name: "an ideographic space", text: "al\u3000ice", unseen: false, unsafe: true },
  { name: "a tab", text: "al\tice", unseen: true, unsafe: true },
  { name: "a line feed", text: "al\nice", unseen: true, unsafe: true },
  { name: "NUL", text: "al\0ice", unseen: true, unsafe: true },
  { name: "DEL", text: "al\x7fice", unseen: true, unsafe: true },
  { name: "NEL", text: "al\x85ice", unseen: true, unsafe: true },
  { name: "C1", text: "al\x9bice", unseen: true, unsafe: true },
  { name: "a line separator", text: "al\u2028ice", unseen: true, unsafe: true },
  { name: "a paragraph separator", text: "al\u2029ice", unseen: true, unsafe: true },
  { name: "a soft hyphen", text: "al\u00adice", unseen: true, unsafe: true },
  { name: "a zero-width space", text: "al\u200bice", unseen: true, unsafe: true },
  { name: "a zero-width joiner", text: "al\u200dice", unseen: true, unsafe: true },
  { name: "a byte order mark", text: "\ufeffalice", unseen: true, unsafe: true },
  { name: "a bidi override", text: "\u202eecila", unseen: true, unsafe: true },
  { name: "a bidi isolate", text: "al\u2066ice", unseen: true, unsafe: true },
  { name: "a tag", text: "alice\u{e0041}", unseen: true, unsafe: true },
  { name: "a variation selector", text: "alice\ufe0f", unseen: true, unsafe: true },
  { name: "a grapheme joiner", text: "al\u034fice", unseen: true, unsafe: true },
  { name: "a Hangul filler", text: "alice\u3164", unseen: true, unsafe: true },
  { name: "an empty Braille pattern", text: "alice\u2800", unseen: true, unsafe: true },
  { name: "private use", text: "alice\ue000", unseen: true, unsafe: true },
  { name: "private use beyond the BMP", text: "alice\u{f0000}", unseen: true, unsafe: true },
  { name: "an unassigned character", text: "alice\u0378", unseen: true, unsafe: true },
  { name: "a lone surrogate", text: "alice\ud800", unseen: true, unsafe: true },
])("hasUnseen() and isUnsafe() of $name", ({ text, unseen, unsafe }) => {
  assert.deepEqual([hasUnseen(text), isUnsafe(text)], [unseen, unsafe]);
});

Deno.test("isUnsafe() finds everything that any reader of records takes for a blank", () => {
  fc.assert(fc.property(fc.string({ unit: "binary" }), (text) => {
    if (/[\p{Cc}\s\p{Z}]/u.test(text) || text.trim() !== text || !text.isWellFormed()) {
      assert.ok(isUnsafe(text));
    }
    if (hasUnseen(text)) assert.ok(isUnsafe(text));
  }));
});
