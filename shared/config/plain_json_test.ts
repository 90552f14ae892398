import assert from "node:assert/strict";
import fc from "fast-check";
import { finish } from "../steps.ts";
import { escapeKey } from "../testing/escaped_key.ts";
import { type JsoncResult, parseExactly, parseJsonc } from "./jsonc.ts";
import { parsePlainJson } from "./plain_json.ts";

const LARGE = ["hosts"];

/** A result that can be compared: entries of large maps can be walked over once, and the order of keys counts. */
function listed(result: JsoncResult) {
  if (result.kind === "malformed") return result;
  const large = new Map([...result.large].map(([key, entries]) => [key, [...entries]]));
  return { ...result, large, inOrder: JSON.stringify([result.value, ...large]) };
}

const isPlain = (text: string) => finish(parsePlainJson(text, LARGE)) !== undefined;

const gap = fc.oneof(
  {
    weight: 30,
    arbitrary: fc.constantFrom(
      ...["", "", "", " ", "\n", "\r", '// , } " :\n', "/* ] , */", "// x\r\n\t"],
      ...["/*/ */", "/***/", "/* // */", "// /*\r", "/*\u2028\ud800*/"],
    ),
  },
  { weight: 1, arbitrary: fc.constantFrom("\u00a0", "\f", "/**", "//", "/*/", "\u2028", "\ufeff") },
);
const key = fc.oneof(
  {
    weight: 30,
    arbitrary: fc.constantFrom(
      ...["a", "b", "c", "hosts", "hosts", "\\u0061", 'q\\"', "\\\\", "//", "/*", ":", "{", ""],
      ...["10", "2", "-1", "constructor", "😀", "\u2028"],
    ),
  },
  { weight: 1, arbitrary: fc.constantFrom("__proto__", "\\ud800", "\ud800", "\\u005f_proto__") },
);
const word = fc.oneof(
  { weight: 20, arbitrary: fc.constantFrom("0", "-1.5e3", "true", "null", "[]", "{}", '{"a":[[]]}') },
  { weight: 10, arbitrary: fc.constantFrom("1e999", "-1e999", "-0", "1E-400", "123456789012345678901") },
  {
    weight: 20,
    arbitrary: fc.constantFrom('""', '"x"', '"\\\\"', '"a\\"b"', '"// {"', '"/*"', '"\\u00e9"', '"[0]"'),
  },
  {
    weight: 1,
    arbitrary: fc.constantFrom(
      ...['"\\ud800"', '"\ud800"', '"', "'x'", '"\t"', '"\\x"', '"\\u12"', "nul", "NaN", "1 2", "{} {}"],
      ...["01", "1.", "-", "+1", "0x1", ",", ":", "]", "}", "/", "[,]", "{,}", '{"a":,}', ""],
    ),
  },
);
const { value } = fc.letrec<{ value: string }>((tie) => {
  const inner = fc.oneof({ weight: 2, arbitrary: word }, { weight: 1, arbitrary: tie("value") });
  const trailing = fc.oneof({ weight: 30, arbitrary: fc.constantFrom("", "", ",") }, fc.constant(",,"));
  const list = (open: string, entry: fc.Arbitrary<string>, close: string) =>
    fc.tuple(fc.array(entry, { maxLength: 3 }), gap, trailing, gap)
      .map(([entries, before, comma, after]) => open + entries.join(",") + before + comma + after + close);
  const member = fc.tuple(gap, key, gap, gap, inner, gap)
    .map(([a, name, b, c, text, d]) => `${a}"${name}"${b}:${c}${text}${d}`);
  const entry = fc.tuple(gap, inner, gap).map((parts) => parts.join(""));
  const object = list("{", member, "}");
  return { value: fc.oneof({ maxDepth: 4 }, object, object, list("[", entry, "]")) };
});
const document = fc.tuple(gap, value, gap, fc.constantFrom("", "", "", "", "", "// end", "{}", ","))
  .map((parts) => parts.join(""));

Deno.test("parseJsonc() reads every text as the exact parser does", () => {
  let plain = 0;
  fc.assert(
    fc.property(document, (text) => {
      assert.deepEqual(listed(finish(parseJsonc(text, LARGE))), listed(parseExactly(text, LARGE)));
      if (isPlain(text)) plain++;
    }),
    { numRuns: 4000 },
  );
  assert.ok(plain > 500, `only ${plain} texts came to be read by the engine's parser`);
});

Deno.test("parseJsonc() reads a text with one character more, less or different as the exact parser does", () => {
  const change = fc.record({
    at: fc.nat(),
    drop: fc.nat(1),
    insert: fc.constantFrom(...'{}[]":,/*\\ \n0a', ""),
  });
  fc.assert(
    fc.property(document, change, (text, { at, drop, insert }) => {
      const start = at % (text.length + 1);
      const changed = text.slice(0, start) + insert + text.slice(start + drop);
      assert.deepEqual(listed(finish(parseJsonc(changed, LARGE))), listed(parseExactly(changed, LARGE)));
    }),
    { numRuns: 4000 },
  );
});

Deno.test.each([
  { name: "JSON", text: '{"a": [1, {"b": "c:\\"d"}], "hosts": {"x": {"y": {}}}}' },
  { name: "comments and trailing commas", text: '{ // a\n "a": /* b */ [1, /* c */ ], }' },
  { name: "keys with escapes", text: '{"\\u0061": 1, "hosts": {"\\\\": {"\\u0061": 1}}}' },
  {
    name: "strings that end in backslashes and quotes",
    text: String.raw`{"a": "x\\", "b": ["\\\"", {"c": "\""}]}`,
  },
])("parsePlainJson() takes $name", ({ text }) => assert.ok(isPlain(text)));

Deno.test.each([
  { name: "a key that stands twice", text: '{"a": 1, "a": 2}' },
  { name: "a host that stands twice", text: '{"hosts": {"x": {}, "x": {"allow_sudo": true}}}' },
  { name: "a key that stands twice in a host", text: '{"hosts": {"x": {"a": {"b": 1, "b": 2}}}}' },
  { name: "a large map that stands twice", text: '{"hosts": {"x": {}}, "hosts": {"x": {}}}' },
  { name: "equal keys in different spellings", text: '{"hosts": {"x": {"a": 1, "\\u0061": 2}}}' },
  { name: "__proto__", text: '{"hosts": {"x": {"__proto__": {}}}}' },
  { name: "half of a surrogate pair", text: '{"hosts": {"x": {"a": "\\ud800"}}}' },
  { name: "a list", text: "[{}]" },
  { name: "a list with a comma alone", text: '{"a": [,]}' },
  { name: "tokens that a comment divides", text: '{"a": 1/**/2}' },
  { name: "a comment without end", text: '{"a": 1} /*' },
  { name: "deep nesting", text: `{"a": ${"[".repeat(100)}${"]".repeat(100)}}` },
])("parsePlainJson() leaves $name to the exact parser", ({ text }) => assert.ok(!isPlain(text)));

Deno.test("parseJsonc() reads what a config says, whatever was read before", () => {
  const host = '{"user":"web","allow_sudo":false}';
  const { before, text } = escapeKey(host, "allow_sudo");
  const read = (entry: string) => listed(finish(parseJsonc(`{"a":${entry},"hosts":{"x":${entry}}}`, LARGE)));
  JSON.parse(before);
  read(before);
  assert.deepEqual(read(text), read(host));
});
