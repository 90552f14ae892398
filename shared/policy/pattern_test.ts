import assert from "node:assert/strict";
import { assertLinearWork } from "../testing/linear_work.ts";
import fc from "fast-check";
import { RE2JS } from "re2js";
import { compilePattern } from "./command.ts";

Deno.test.each([
  { name: "searches anywhere", source: "b", text: "abc", found: true },
  { name: "is case sensitive", source: "B", text: "abc", found: false },
  { name: "takes ^ as the start of the text", source: "^b", text: "a\nb", found: false },
  { name: "takes $ as the end of the text", source: "a$", text: "a\n", found: false },
  { name: "lets . match all but a line feed", source: "^a.b$", text: "a\nb", found: false },
  { name: "lets . match one code point", source: "^.$", text: "😀", found: true },
  { name: "keeps \\s ASCII", source: "\\s", text: "\u00a0", found: false },
  { name: "keeps \\d ASCII", source: "\\d", text: "٣", found: false },
  { name: "keeps \\w ASCII", source: "\\w", text: "é", found: false },
  { name: "keeps \\b ASCII", source: "a\\b", text: "aé", found: true },
  { name: "knows inline flags", source: "(?i)^RM$", text: "rm", found: true },
  { name: "knows \\A and \\z", source: "\\Aps\\z", text: "ps", found: true },
  { name: "knows \\Q..\\E", source: "^\\Qa.b\\E$", text: "a.b", found: true },
  { name: "keeps \\Q..\\E literal", source: "^\\Qa.b\\E$", text: "axb", found: false },
  { name: "knows POSIX classes", source: "^[[:digit:]]+$", text: "12", found: true },
  { name: "knows Unicode classes", source: "^\\pL$", text: "é", found: true },
  { name: "knows named groups", source: "^(?P<n>a)$", text: "a", found: true },
  { name: "takes a lone surrogate as U+FFFD", source: "^\\x{FFFD}$", text: "\ud800", found: true },
])("compilePattern() $name", ({ source, text, found }) => {
  assert.equal(compilePattern(source).test(text), found);
});

Deno.test.each([
  { name: "lookahead", source: "a(?=b)" },
  { name: "negative lookahead", source: "a(?!b)" },
  { name: "lookbehind", source: "(?<=a)b" },
  { name: "negative lookbehind", source: "(?<!a)b" },
  { name: "backreference", source: "(a)\\1" },
  { name: "named backreference", source: "(?P<n>a)(?P=n)" },
  { name: "count above 1000", source: "a{1001}" },
  { name: "nested counts above 1000", source: "(a{500}){3}" },
  { name: "unknown letter escape", source: "\\y" },
  { name: "\\Z", source: "a\\Z" },
  { name: "\\u escape", source: "\\u0041" },
  { name: "possessive quantifier", source: "a++" },
  { name: "atomic group", source: "(?>a)" },
  { name: "comment group", source: "(?#a)" },
  { name: "unknown flag", source: "(?x)a" },
  { name: "unclosed group", source: "(a" },
  { name: "unclosed class", source: "[a" },
  { name: "unknown class", source: "\\p{Foo}" },
  { name: "trailing backslash", source: "a\\" },
  { name: "lone surrogate", source: "\ud800" },
  { name: "nesting of 20,000", source: "(".repeat(20_000) + ")".repeat(20_000) },
])("compilePattern() refuses $name", ({ source }) => {
  assert.throws(() => compilePattern(source), { name: "AppError", code: "invalid_config" });
});

Deno.test("compilePattern() agrees with a full match search of the same engine", () => {
  const atom = fc.constantFrom(
    "a",
    "b",
    ".",
    "[ab]",
    "[^a]",
    "^",
    "$",
    "\\b",
    "\\s",
    "\\w",
    "(a|b)",
    "(?i:A)",
    "é",
    "",
  );
  const repeat = fc.constantFrom("", "*", "+", "?", "{2}", "{0,2}");
  const piece = fc.tuple(atom, repeat).map((
    [each, times],
  ) => (/[\^$b]$|^$/.test(each) ? each : each + times));
  const source = fc.array(piece, { maxLength: 6 }).map((pieces) => pieces.join(""));
  const text = fc.string({ unit: fc.constantFrom("a", "b", "A", " ", "é", "\n", "😀"), maxLength: 12 });
  fc.assert(
    fc.property(source, text, (pattern, input) => {
      assert.equal(compilePattern(pattern).test(input), RE2JS.compile(pattern).matcher(input).find());
      assert.equal(compilePattern(pattern).test(input), new RegExp(toNative(pattern), "u").test(input));
    }),
    { numRuns: 2000 },
  );
});

/** The few differences between the syntaxes, for the alphabet above. */
function toNative(pattern: string): string {
  return pattern.replaceAll(".", "[^\\n]");
}

Deno.test.each([
  "(a+)+$",
  "(a|aa)+$",
  "(x+x+)+y",
  "(.*)(.*)(.*)(.*)(.*)[0-9]$",
  "^(([a-z])+.)+[A-Z]([a-z])+$",
  "(a?){50}a{50}$",
  "[a-z]{500}[0-9]",
].map((source) => ({ source })))("compilePattern() $source takes linear time", ({ source }) => {
  const pattern = compilePattern(source);
  assertLinearWork((size) => pattern.test("a".repeat(size) + "!"), 64_000);
});
