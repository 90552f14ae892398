import assert from "node:assert/strict";
import * as fc from "fast-check";
import { anyCharacter } from "@gateway/shared/testing";
import {
  collectBytes,
  concatBytes,
  cutText,
  foldIdentity,
  formatDuration,
  formatKeyPath,
  formatSpan,
  hasInvisible,
  isSameIdentity,
  isUnsafe,
  quoteText,
  shellQuote,
  shortenText,
  visibleJson,
  visibleText,
  writeAll,
  writeAllSync,
} from "./text.ts";
import { AppError, describeFault, errorName, errorText } from "./errors.ts";

Deno.test.each([
  ["leaves plain text", "web01", '"web01"'],
  ["quotes nothing", "", '""'],
  ["escapes quotes and backslashes", '"\\', String.raw`"\"\\"`],
  ["uses the short escapes", "\x07\b\f\n\r\t\v", String.raw`"\a\b\f\n\r\t\v"`],
  ["writes other controls in hex", "\0\x1b[2J\x7f", String.raw`"\x00\x1b[2J\x7f"`],
  ["writes C1 controls as code points", "\x85\x9b", String.raw`"\u0085\u009b"`],
  ["leaves printable Unicode", "café 日本 €", '"café 日本 €"'],
  ["leaves printable astral characters", "😀", '"😀"'],
  ["escapes separators", "\u00a0\u2028\u2029", String.raw`"\u00a0\u2028\u2029"`],
  ["escapes bidi and zero width", "\u202e\u200b\ufeff", String.raw`"\u202e\u200b\ufeff"`],
  ["escapes astral format characters", "\u{e0001}", String.raw`"\U000e0001"`],
  ["replaces lone surrogates", "a\ud800b", '"a\ufffdb"'],
])("quoteText() %s", (_name, text, quoted) => {
  assert.equal(quoteText(text), quoted);
});

Deno.test("quoteText() returns one printable line with one closing quote", () => {
  fc.assert(fc.property(fc.string({ unit: anyCharacter(fc) }), (text) => {
    assert.match(quoteText(text), /^"(?:[^"\\\p{C}\p{Zl}\p{Zp}]|\\.)*"$/u);
  }));
});

Deno.test.each([
  ...["alice", "al-ice@example.com", "host:web01", "brøker", "日本", "e\u0301", "Zoë", "😀", ""]
    .map((text) => ({ name: JSON.stringify(text), text, unseen: false, unsafe: false })),
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
])("hasInvisible() and isUnsafe() of $name", ({ text, unseen, unsafe }) => {
  assert.deepEqual([hasInvisible(text), isUnsafe(text)], [unseen, unsafe]);
});

Deno.test("isUnsafe() detects every character that a reader of records treats as a space", () => {
  fc.assert(fc.property(fc.string({ unit: anyCharacter(fc) }), (text) => {
    if (/[\p{Cc}\s\p{Z}]/u.test(text) || text.trim() !== text || !text.isWellFormed()) {
      assert.ok(isUnsafe(text));
    }
    if (hasInvisible(text)) assert.ok(isUnsafe(text));
  }));
});

Deno.test.each([
  ["leaves printable text", 'ls -l "é日😀" \\ | wc', 'ls -l "é日😀" \\ | wc'],
  ["shows escape sequences", "\x1b]0;owned\x07", String.raw`\x1b]0;owned\x07`],
  ["shows line breaks and tabs", "a\r\n\tb\0", String.raw`a\x0d\x0a\x09b\x00`],
  ["shows DEL and C1", "\x7f\x9b31m", String.raw`\x7f\x9b31m`],
  ["shows bidi controls", "\u202egpj\u2069", String.raw`\u{202e}gpj\u{2069}`],
  ["shows zero width characters", "a\u200bb\ufeff", String.raw`a\u{200b}b\u{feff}`],
  ["shows the soft hyphen as a code point", "a\u00adb", String.raw`a\u{ad}b`],
  ["shows separators", "\u2028\u2029", String.raw`\u{2028}\u{2029}`],
  ["shows tag characters", "\u{e0041}", String.raw`\u{e0041}`],
  ["shows invisible letters", "a\u3164\ufe0f\u2800", String.raw`a\u{3164}\u{fe0f}\u{2800}`],
  ["shows private use", "\ue000", String.raw`\u{e000}`],
  ["shows unusual spaces", "al\u00a0ice \u3000", String.raw`al\xa0ice \u{3000}`],
  ["shows towers of marks", "e\u0301\u0302\u0303", "e\u0301\u0302" + String.raw`\u{303}`],
  ["shows a mark without a base character", "\u0301a", String.raw`\u{301}a`],
  ["shows lone surrogates", "\udc00", String.raw`\u{dc00}`],
])("visibleText() %s", (_name, text, shown) => {
  assert.equal(visibleText(text), shown);
});

Deno.test("visibleText() contains no character that a terminal interprets", () => {
  fc.assert(fc.property(fc.string({ unit: anyCharacter(fc) }), (text) => {
    assert.doesNotMatch(visibleText(text), /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/u);
  }));
});

Deno.test("visibleJson() keeps the value and contains no character that a terminal interprets", () => {
  fc.assert(fc.property(fc.jsonValue(), fc.string({ unit: anyCharacter(fc) }), (value, text) => {
    for (const json of [JSON.stringify({ value, [text]: text }), JSON.stringify({ value, text }, null, 2)]) {
      const shown = visibleJson(json);
      assert.deepEqual(JSON.parse(shown), JSON.parse(json));
      assert.doesNotMatch(shown, /[\p{C}\p{Zl}\p{Zp}]/u);
    }
  }));
});

Deno.test("cutText() and shortenText() keep short text and never split a character", () => {
  const cut = (text: string, limit: number) => [cutText(text, limit), shortenText(text, limit)];
  assert.deepEqual(cut("abc", 3), ["abc", "abc"]);
  assert.deepEqual(cut("abc", 2), ["ab", "ab…"]);
  assert.deepEqual(cut("a😀", 2), ["a", "a…"]);
  assert.deepEqual(cut("a😀", 3), ["a😀", "a😀"]);
});

Deno.test.each([
  { name: "nothing", word: "", quoted: "''" },
  { name: "a path", word: "/etc/gateway/signer.json", quoted: "/etc/gateway/signer.json" },
  { name: "a dash", word: "a-b", quoted: "a-b" },
  { name: "a word that zsh expands to the path of a program", word: "=ls", quoted: "'=ls'" },
  { name: "an option with its value", word: "--lines=5", quoted: "'--lines=5'" },
  { name: "a space", word: "a b", quoted: "'a b'" },
  { name: "a line break", word: "a\nb", quoted: "'a\nb'" },
  { name: "a quote", word: "a'b", quoted: String.raw`'a'\''b'` },
  { name: "a substitution", word: "$(id)", quoted: "'$(id)'" },
  { name: "brackets", word: "[::1]:1", quoted: "'[::1]:1'" },
  { name: "a home directory", word: "~/x", quoted: "'~/x'" },
])("shellQuote() writes $name", ({ word, quoted }) => {
  assert.equal(shellQuote(word), quoted);
});

Deno.test.each([
  { milliseconds: 0, text: "0s" },
  { milliseconds: 300, text: "300ms" },
  { milliseconds: 1_000, text: "1s" },
  { milliseconds: 2_500, text: "2.5s" },
  { milliseconds: 10_000, text: "10s" },
  { milliseconds: 60_000, text: "1m0s" },
  { milliseconds: 90_000, text: "1m30s" },
  { milliseconds: 600_000, text: "10m0s" },
  { milliseconds: 3_600_000, text: "1h0m0s" },
  { milliseconds: 5_445_000, text: "1h30m45s" },
  { milliseconds: 9_223_369_200_000, text: "2562047h0m0s" },
])("formatDuration() writes $milliseconds ms as $text", ({ milliseconds, text }) => {
  assert.equal(formatDuration(milliseconds), text);
});

Deno.test.each([
  { ms: -5000, text: "0 s" },
  { ms: 999, text: "0 s" },
  { ms: 59_999, text: "59 s" },
  { ms: 60_000, text: "1 min" },
  { ms: 99_000, text: "1 min 39 s" },
  { ms: 3_600_000, text: "1 h" },
  { ms: 3_660_000, text: "1 h 1 min" },
  { ms: 86_400_000, text: "1 day" },
  { ms: 3 * 86_400_000 + 4 * 3_600_000, text: "3 days 4 h" },
])("formatSpan() of $ms ms returns $text", ({ ms, text }) => {
  assert.equal(formatSpan(ms), text);
});

Deno.test.each([
  { name: "capitals", left: "ALICE", right: "alice" },
  { name: "compatibility forms", left: "\uff21\uff4cice", right: "alice" },
  { name: "a ligature", left: "o\ufb03ce", right: "office" },
  { name: "composed and decomposed letters", left: "Zo\u00eb", right: "zoe\u0308" },
  { name: "sharp s, small and capital, and its two letters", left: "stra\u00dfe", right: "STRA\u1e9eE" },
  { name: "sharp s and its two letters", left: "stra\u00dfe", right: "STRASSE" },
  { name: "a sigma at the end and elsewhere", left: "\u03c3\u03c2", right: "\u03a3\u03a3" },
  { name: "the sign for kelvin", left: "\u212a1", right: "k1" },
  { name: "trailing dots", left: "web.example.", right: "web.example" },
  { name: "several trailing dots, also as one character", left: "alice\u2026", right: "alice" },
])("isSameIdentity() treats $name as the same", ({ left, right }) => {
  assert.ok(isSameIdentity(left, right));
});

Deno.test.each([
  { name: "another name", left: "alice", right: "bob" },
  { name: "accents", left: "zoe", right: "zo\u00eb" },
  { name: "dots elsewhere", left: ".a.b", right: "ab" },
  { name: "another script", left: "alice", right: "\u0430lice" },
  { name: "only dots, without a name", left: "...", right: "" },
])("isSameIdentity() distinguishes $name", ({ left, right }) => {
  assert.ok(!isSameIdentity(left, right));
});

Deno.test("foldIdentity() is idempotent and independent of the Unicode normalization form", () => {
  fc.assert(fc.property(fc.string({ unit: anyCharacter(fc) }), (name) => {
    const folded = foldIdentity(name);
    assert.equal(foldIdentity(folded), folded);
    assert.equal(folded === "", name === "");
    for (const form of ["NFC", "NFD"] as const) {
      assert.equal(foldIdentity(name.normalize(form)), folded);
    }
  }));
});

Deno.test("foldIdentity() maps upper and lower case of each character to one form", () => {
  for (let code = 0x21; code < 0x30000; code++) {
    const character = String.fromCodePoint(code);
    for (const other of [character.toUpperCase(), character.toLowerCase()]) {
      if (other !== character) assert.ok(isSameIdentity(`x${character}y`, `x${other}y`), code.toString(16));
    }
  }
});

Deno.test.each([
  { name: "plain names", path: ["hosts", "web01", "addr"], text: "hosts.web01.addr" },
  { name: "a place in a list", path: ["redact", "patterns", 0, "name"], text: "redact.patterns[0].name" },
  { name: "a space", path: ["hosts", "web 01", "jump"], text: 'hosts["web 01"].jump' },
  { name: "a dot, which is not a step", path: ["hosts", "web.01", "addr"], text: 'hosts["web.01"].addr' },
  { name: "an at sign", path: ["hosts", "db@1", "addr"], text: 'hosts["db@1"].addr' },
  { name: "an empty name", path: ["hosts", "", "addr"], text: 'hosts[""].addr' },
  { name: "a quote", path: ["hosts", 'a"]b', "addr"], text: String.raw`hosts["a\"]b"].addr` },
  { name: "a bidi override", path: ["hosts", "\u202ea"], text: String.raw`hosts["\u202ea"]` },
  { name: "an escape", path: ["hosts", "\x1b[2J"], text: String.raw`hosts["\x1b[2J"]` },
  { name: "a name at the top", path: ["a.b"], text: '["a.b"]' },
  { name: "a number as a name", path: ["hosts", "0"], text: "hosts.0" },
  { name: "an empty path", path: [], text: "" },
])("formatKeyPath() of $name", ({ path, text }) => {
  assert.equal(formatKeyPath(path), text);
});

Deno.test("formatKeyPath() returns different texts for different paths", () => {
  const step = fc.oneof(fc.nat(3), fc.string({ unit: fc.constantFrom(...'ab.0[]" \\') }));
  fc.assert(
    fc.property(fc.array(step, { maxLength: 4 }), fc.array(step, { maxLength: 4 }), (one, other) => {
      const isSame = JSON.stringify(one) === JSON.stringify(other);
      assert.equal(formatKeyPath(one) === formatKeyPath(other), isSame);
    }),
    { numRuns: 2000 },
  );
});

Deno.test("concatBytes() returns a copy in its own buffer", () => {
  const piece = Uint8Array.of(1, 2);
  const bytes = concatBytes([piece]);
  piece.fill(0);
  assert.deepEqual(bytes, Uint8Array.of(1, 2));
  assert.equal(bytes.buffer.byteLength, 2);
  assert.deepEqual(concatBytes([]), new Uint8Array());
});

Deno.test("collectBytes() returns all bytes up to the limit and cancels the source beyond it", async () => {
  let isCancelled = false;
  let next = 0;
  const source = new ReadableStream<Uint8Array>({
    pull: (controller) => controller.enqueue(Uint8Array.of(++next)),
    cancel: () => void (isCancelled = true),
  });
  assert.equal(await collectBytes(source, 2), undefined);
  assert.ok(isCancelled);
  const three = async function* () {
    yield* [Uint8Array.of(1), Uint8Array.of(2, 3)];
  };
  assert.deepEqual(await collectBytes(three(), 3), Uint8Array.of(1, 2, 3));
  const endless = async function* () {
    for (;;) yield "é";
  };
  assert.equal(await collectBytes(endless(), 100), undefined);
});

Deno.test("writeAll() and writeAllSync() write all bytes despite partial writes", async () => {
  await fc.assert(fc.asyncProperty(fc.uint8Array(), fc.integer({ min: 1, max: 7 }), async (bytes, most) => {
    const written: number[] = [];
    const writeSync = (piece: Uint8Array) => {
      written.push(...piece.subarray(0, most));
      return Math.min(most, piece.length);
    };
    await writeAll({ write: (piece) => Promise.resolve(writeSync(piece)) }, bytes);
    writeAllSync({ writeSync }, bytes);
    assert.deepEqual(written, [...bytes, ...bytes]);
  }));
});

Deno.test.each<
  { readonly name: string; readonly error: unknown; readonly text: string; readonly kind: string }
>([
  { name: "an error of ours", error: new AppError("denied", "no"), text: "no", kind: "AppError" },
  {
    // The error of node:net when every address of a name refuses the connection.
    name: "an error without a message",
    error: new AggregateError([new Error("refused")]),
    text: "AggregateError",
    kind: "AggregateError",
  },
  { name: "a text", error: "gone", text: "gone", kind: "string" },
  { name: "undefined", error: undefined, text: "undefined", kind: "undefined" },
])("errorText() and errorName() of $name", ({ error, text, kind }) => {
  assert.deepEqual([errorText(error), errorName(error), describeFault(error)], [text, kind, text]);
});

Deno.test("describeFault() includes every cause and terminates for an error that is its own cause", () => {
  const root = new Error("ECONNREFUSED");
  const error = new AppError("upstream_failure", "no answer", { cause: new Error("", { cause: root }) });
  assert.equal(describeFault(error), "no answer: Error: ECONNREFUSED");
  root.cause = root;
  assert.match(describeFault(error), /^no answer: Error: (?:ECONNREFUSED(?:: )?){7}$/);
});
