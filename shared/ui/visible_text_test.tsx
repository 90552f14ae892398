import assert from "node:assert/strict";
import fc from "fast-check";
import { render } from "preact-render-to-string";
import { findSuspiciousCharacters, segmentText, VisibleText } from "./visible_text.tsx";
import { anyCharacter, assertLinearWork, readHtml } from "@gateway/shared/testing";
import { visibleText } from "@gateway/shared/text";

const showText = (text: string, options: { readonly limit?: number; readonly lines?: boolean } = {}) =>
  render(<VisibleText text={text} {...options} />);

const plain = (text: string) => ({ kind: "plain", text });
const foreign = (text: string) => ({ kind: "foreign", text });
const odd = (character: string, count = 1) => ({ kind: "odd", character, count });

Deno.test.each([
  { name: "leaves ASCII alone", text: 'ls -l "a" \\ | wc', segments: [plain('ls -l "a" \\ | wc')] },
  { name: "has no segments for an empty text", text: "", segments: [] },
  {
    name: "separates controls between words",
    text: "a\u202eb",
    segments: [plain("a"), odd("\u202e"), plain("b")],
  },
  { name: "counts repetitions", text: "\n\n\n\r", segments: [odd("\n", 3), odd("\r")] },
  { name: "separates pairs and lone surrogates", text: "\ud83d😀", segments: [odd("\ud83d"), foreign("😀")] },
  { name: "marks foreign letters", text: "c\u0430t", segments: [plain("c"), foreign("\u0430"), plain("t")] },
  { name: "keeps foreign words", text: "日本 é", segments: [foreign("日本"), plain(" "), foreign("é")] },
  { name: "finds spaces at the edges", text: " a  ", segments: [odd(" "), plain("a"), odd(" ", 2)] },
  { name: "finds wide gaps", text: `a${" ".repeat(9)}b`, segments: [plain("a"), odd(" ", 9), plain("b")] },
  { name: "leaves indentation alone", text: `a${" ".repeat(8)}b`, segments: [plain(`a${" ".repeat(8)}b`)] },
  {
    name: "limits combining marks",
    text: "a\u0301\u0302\u0303",
    segments: [plain("a"), foreign("\u0301\u0302"), odd("\u0303")],
  },
])("segmentText() $name", ({ text, segments }) => {
  assert.deepEqual(segmentText(text), segments);
});

Deno.test("segmentText() keeps every character (property)", () => {
  fc.assert(fc.property(hostileText(), (text) => {
    const whole = segmentText(text).map((segment) =>
      segment.kind === "odd" ? segment.character.repeat(segment.count) : segment.text
    );
    assert.equal(whole.join(""), text);
  }));
});

Deno.test.each(
  ["\u202ea", "\u0301", "\u0301\u0302", "日", "         a", "\ud800", " "].map((unit) => ({
    name: JSON.stringify(unit),
    unit,
  })),
)("segmentText() takes linear time on $name", ({ unit }) => {
  assertLinearWork((size) => segmentText(unit.repeat(size / unit.length)), 61_440);
});

Deno.test("VisibleText marks escapes to distinguish them from the same typed text", () => {
  const typed = showText(String.raw`\u{202e}`);
  const written = showText("\u202e");
  assert.equal(typed, String.raw`<bdo dir="ltr" class="raw">\u{202e}</bdo>`);
  assert.match(written, /<mark class="odd" title="U\+202E RIGHT-TO-LEFT OVERRIDE">\\u\{202e\}<\/mark>/);
});

Deno.test.each([
  { name: "the name of a character", text: "\x1b", title: "U+001B ESCAPE" },
  { name: "how often it occurs", text: "\u200b".repeat(40), title: "U+200B ZERO WIDTH SPACE ×40" },
  { name: "the kind of a character without a name", text: "\u{e0041}", title: "U+E0041 tag character" },
  { name: "a surrogate", text: "\udc00", title: "U+DC00 lone surrogate" },
  { name: "a confusable letter", text: "\u0430", title: "not ASCII: U+0430" },
  {
    name: "at most eight letters",
    text: "абвгдежзи",
    title: "not ASCII: U+0430 U+0431 U+0432 U+0433 U+0434 U+0435 U+0436 U+0437 …",
  },
])("VisibleText shows $name", ({ text, title }) => {
  assert.equal(readHtml(showText(text))[1]?.attributes["title"], title);
});

Deno.test("VisibleText keeps lines and marks each line end", () => {
  assert.equal(readHtml(showText("a\nb"))[0]?.text, "a\\x0a\nb");
});

Deno.test("VisibleText truncates long text between characters and counts the rest", () => {
  const [shown, , rest] = readHtml(showText("a😀".repeat(1000), { limit: 5 }));
  assert.equal(shown?.text, "a😀a");
  assert.equal(rest?.text, "… 2,996 more characters");
});

Deno.test("VisibleText contains no markup, control or invisible characters from its text (property)", () => {
  fc.assert(fc.property(hostileText(), (text) => {
    const elements = readHtml(showText(text));
    assert.ok(elements.every(({ tag }) => ["bdo", "span", "mark"].includes(tag)));
    const shown = elements[0]?.text ?? "";
    assert.equal(visibleText(shown.replaceAll("\n", "")), shown.replaceAll("\n", ""));
    assert.doesNotMatch(shown.replaceAll("\n", ""), /[\p{C}\p{Zl}\p{Zp}\p{DI}]/u);
  }));
});

Deno.test("findSuspiciousCharacters() returns counts with the most frequent character first", () => {
  assert.deepEqual(findSuspiciousCharacters("a\x1bb\u202ec\u202e日本"), {
    odd: [{ name: "U+202E RIGHT-TO-LEFT OVERRIDE", count: 2 }, { name: "U+001B ESCAPE", count: 1 }],
    foreign: 2,
  });
  assert.deepEqual(findSuspiciousCharacters("systemctl restart nginx"), { odd: [], foreign: 0 });
});

function hostileText(): fc.Arbitrary<string> {
  const pieces = fc.constantFrom(
    "<b>",
    "&amp;",
    '"',
    "'",
    "`",
    "\0",
    "\r\n",
    "\u2028",
    "\u202e",
    "\x1b[31m",
    "\ud800",
    "  ",
  );
  return fc.array(fc.oneof(pieces, fc.string({ unit: anyCharacter(fc), maxLength: 8 })), { maxLength: 12 })
    .map((parts) => parts.join(""));
}

const shownAlike = (text: string) => {
  const shown = segmentText(text).map((segment) =>
    segment.kind === "odd" && segment.character !== " "
      ? visibleText(segment.character).repeat(segment.count)
      : segment.kind === "odd"
      ? " ".repeat(segment.count)
      : segment.text
  );
  assert.equal(shown.join(""), visibleText(text));
};

Deno.test.each([
  "\u0301\u0301",
  "\u0301\u0301\u0301\u0301",
  "\ud800\ud800\udc41",
  "e\u0301\u0302\u0302\u0302",
  "\0\x1b\u200b\u2028\u2029\u3164\uffa0\u2800\u00a0\u3000\u{e0041}\ue000\u0338a",
])(
  "a page escapes the same characters as a terminal: %j",
  shownAlike,
);

Deno.test("pages and terminals escape the same characters (property)", () => {
  const units = fc.constantFrom(
    ..."a é\u0301\u0302\u20dd\u00a0\u3000\u200b\u202e\u3164\ufe0f\u2800\ue000\n\x1b\x9b",
    "\ud800",
    "\u{e0041}",
  );
  const texts = fc.oneof(fc.string({ unit: anyCharacter(fc) }), fc.string({ unit: units }));
  fc.assert(fc.property(texts, shownAlike), { numRuns: 1000 });
});
