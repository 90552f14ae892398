import fc from "fast-check";
import { findNodeAtLocation, type Node, parse, parseTree } from "jsonc-parser";
import assert from "node:assert/strict";
import { appendToList, locate, removeFromList, removeMember, setValue } from "./edit.ts";

const PATH = ["allow"];

type Row = [name: string, text: string, expected: string];

Deno.test.each<Row>([
  ["on one line", '{"allow": ["a", "b"]}', '{"allow": ["a", "b", "c"]}'],
  [
    "of lines, below the comment of its last item",
    '{\n  "allow": [\n    "a", // why a\n    "b" // why b\n  ]\n}',
    '{\n  "allow": [\n    "a", // why a\n    "b", // why b\n    "c"\n  ]\n}',
  ],
  [
    "of lines, above what is commented out at its end",
    '{"allow": [\n    // shells\n    "a"\n    // "b"\n  ]}',
    '{"allow": [\n    // shells\n    "a",\n    "c"\n    // "b"\n  ]}',
  ],
  [
    "with a comma at its end",
    '{"allow": [\n  "a", /* why */ // and\n]}',
    '{"allow": [\n  "a", /* why */ // and\n  "c",\n]}',
  ],
  [
    "with a comma at its end, on a line of its own",
    '{"allow": [\n  "a" // why\n  ,\n]}',
    '{"allow": [\n  "a" // why\n  ,\n  "c",\n]}',
  ],
  [
    "whose last item has a comment on its line, and a bracket too",
    '{"allow": ["a" /* why */]}',
    '{"allow": ["a", /* why */ "c"]}',
  ],
  [
    "that begins on the line of its key",
    '{\n  "allow": ["a", // why\n  ]\n}',
    '{\n  "allow": ["a", // why\n    "c",\n  ]\n}',
  ],
  [
    "of comments alone",
    '{\n  "allow": [ // nothing yet\n    // but soon\n  ]\n}',
    '{\n  "allow": [ // nothing yet\n    // but soon\n    "c"\n  ]\n}',
  ],
  [
    "with lines of Windows",
    '{"allow": [\r\n\t"a"\r\n]}',
    '{"allow": [\r\n\t"a",\r\n\t"c"\r\n]}',
  ],
  ["that is empty", '{"allow": []}', '{"allow": [\n  "c"\n]}'],
])("appendToList() adds to a list %s", (_name, text, expected) => {
  assert.equal(appendToList(text, PATH, "c"), expected);
});

Deno.test.each<[name: string, path: string, value: unknown, text: string, expected: string]>([
  [
    "in the place of another",
    "a.mode",
    "allowlist",
    '{ "a": { "mode": /* not yet */ "off" } }',
    '{ "a": { "mode": /* not yet */ "allowlist" } }',
  ],
  [
    "as the last member",
    "a.mode",
    "allowlist",
    '{\n  "a": {\n    "allow": ["x"] // note\n  }\n}',
    '{\n  "a": {\n    "allow": ["x"], // note\n    "mode": "allowlist"\n  }\n}',
  ],
  [
    "in an object that is not there yet",
    "a.policy.allow",
    ["x"],
    '{\n  "a": {\n    "addr": "y"\n  }\n}',
    '{\n  "a": {\n    "addr": "y",\n    "policy": { "allow": ["x"] }\n  }\n}',
  ],
  [
    "in an empty object",
    "a.allow",
    "x",
    '{\n  "a": {}\n}',
    '{\n  "a": {\n    "allow": "x"\n  }\n}',
  ],
  [
    "in the place of a value that is not an object",
    "a.allow",
    "x",
    '{ "a": null }',
    '{ "a": { "allow": "x" } }',
  ],
  [
    "that is too long for a line over several lines",
    "a",
    { rules: [{ verbs: ["get"] }], text: "x".repeat(80) },
    '{\n\t"b": 1\n}',
    `{\n\t"b": 1,\n\t"a": {\n\t  "rules": [\n\t    { "verbs": ["get"] }\n\t  ],\n\t  "text": "${
      "x".repeat(80)
    }"\n\t}\n}`,
  ],
  [
    "by a key that is written with escapes",
    "web01.mode",
    "b",
    '{ "\\u0077eb01": { "mode": "a" } }',
    '{ "\\u0077eb01": { "mode": "b" } }',
  ],
])("setValue() sets a value %s", (_name, path, value, text, expected) => {
  assert.equal(setValue(text, path.split("."), value), expected);
});

Deno.test.each<Row>([
  ["the first on a line", '{"allow": ["c", "a"]}', '{"allow": ["a"]}'],
  ["one on a line", '{"allow": ["a", "c", "b"]}', '{"allow": ["a", "b"]}'],
  ["the last on a line", '{"allow": [ "a", "c" ]}', '{"allow": [ "a" ]}'],
  ["the only one", '{"allow": ["c"]}', '{"allow": []}'],
  ["each of several", '{"allow": ["c", "a", "c", "c"]}', '{"allow": ["a"]}'],
  [
    "one with its line",
    '{"allow": [\n  "a", // why a\n  "c",\n  "b" // why b\n]}',
    '{"allow": [\n  "a", // why a\n  "b" // why b\n]}',
  ],
  [
    "the last with its line, and the comma before it",
    '{"allow": [\n  "a", // why a\n  "c"\n]}',
    '{"allow": [\n  "a" // why a\n]}',
  ],
  [
    "one, and leaves the comment beside it",
    '{"allow": [\n  "c", // INC-7\n  "b"\n]}',
    '{"allow": [\n  // INC-7\n  "b"\n]}',
  ],
  [
    "one with a comma at the end of the list",
    '{"allow": ["a", "c", ]}',
    '{"allow": ["a", ]}',
  ],
  [
    "one whose text is in a comment and has one in it",
    '{"allow": [\n  // "c"\n  "c"\n]}',
    '{"allow": [\n  // "c"\n]}',
  ],
])("removeFromList() removes %s", (_name, text, expected) => {
  assert.equal(removeFromList(text, PATH, "c"), expected);
});

Deno.test.each<Row>([
  ["the only one", '{"m": {"c": 1}}', '{"m": {}}'],
  ["the first on a line", '{"m": {"c": [1, 2], "a": 1}}', '{"m": {"a": 1}}'],
  ["the last on a line", '{"m": { "a": 1, "c": 1 }}', '{"m": { "a": 1 }}'],
  [
    "one of several lines, with the comments in it and not those about it",
    '{"m": {\n  "a": 1, // why a\n  // why c\n  "c": {\n    "x": 1 // why x\n  },\n  "b": 2\n}}',
    '{"m": {\n  "a": 1, // why a\n  // why c\n  "b": 2\n}}',
  ],
  [
    "the last of several lines, and the comma before it",
    '{"m": {\n  "a": 1,\n  "c": {\n    "x": 1\n  }\n}}',
    '{"m": {\n  "a": 1\n}}',
  ],
  ["none of another name", '{"m": {"a": {"c": 1}}}', '{"m": {"a": {"c": 1}}}'],
  ["none of a list", '{"m": ["c"]}', '{"m": ["c"]}'],
])("removeMember() removes %s", (_name, text, expected) => {
  assert.equal(removeMember(text, ["m", "c"]), expected);
});

const blank = fc.constantFrom("", " ", "\n", "\r\n", "\t", "\n\n    ");
const comment = fc.constantFrom("// x\n", "// ,]\r\n", "/* y */", '/* \n ,"c" */', '// "c",\n');
const trivia = fc.array(fc.oneof(blank, comment), { maxLength: 3 }).map((parts) => parts.join(""));
const item = fc.record({ before: trivia, text: fc.constantFrom("a", "c", "//", ",", "]"), after: trivia });

const lists = fc.record({
  items: fc.array(item, { maxLength: 4 }),
  comma: fc.option(trivia),
  start: trivia,
  end: trivia,
}).map(({ items, comma, start, end }) => {
  const inner = items.map(({ before, text, after }) => `${before}${JSON.stringify(text)}${after}`).join(",");
  const last = comma === null || items.length === 0 ? "" : `,${comma}`;
  return { items: items.map(({ text }) => text), text: `{${start}"allow": [${inner}${last}${end}]${start}}` };
});

const commentsOf = (text: string) =>
  (text.match(/"[^"]*"|\/\/[^\r\n]*|\/\*[^]*?\*\//g) ?? []).filter((token) => token.startsWith("/"));
const listOf = (text: string) => {
  const errors: [] = [];
  const value = parse(text, errors, { allowTrailingComma: true });
  assert.deepEqual(errors, [], text);
  return (value as { readonly allow: readonly string[] }).allow;
};

Deno.test("appendToList() and removeFromList() change one item of any list and keep every comment", () => {
  fc.assert(
    fc.property(lists, ({ items, text }) => {
      assert.deepEqual(listOf(text), items);
      const longer = appendToList(text, PATH, "new");
      assert.deepEqual(listOf(longer), [...items, "new"]);
      assert.deepEqual(commentsOf(longer), commentsOf(text));
      assert.deepEqual(listOf(removeFromList(longer, PATH, "new")), items);
      const wider = setValue(text, ["mode"], "allowlist");
      assert.deepEqual([listOf(wider), commentsOf(wider)], [items, commentsOf(text)]);
      const narrower = removeMember(wider, ["mode"]);
      assert.deepEqual([listOf(narrower), commentsOf(narrower)], [items, commentsOf(text)]);
      assert.deepEqual(parse(narrower), parse(text));
      const shorter = removeFromList(text, PATH, "c");
      assert.deepEqual(listOf(shorter), items.filter((text) => text !== "c"));
      assert.deepEqual(commentsOf(shorter), commentsOf(text));
    }),
    { numRuns: 500 },
  );
});

const filler = fc.array(fc.constantFrom(" ", "\n", "\r\n", "\t", "// }]\n", '// "\r\n', '/* {" */', "/**/"), {
  maxLength: 2,
}).map((parts) => parts.join(""));
const text = fc.oneof(
  fc.string({ maxLength: 6 }),
  fc.constantFrom("a", "b", '"', "\\", '\\"', "\\\\", "//", "/*", "{", "]", ",", "é\u{1F600}"),
).map((text) => JSON.stringify(text));
const key = fc.oneof({ arbitrary: fc.constantFrom('"a"', '"b"', '"\\u0061b"'), weight: 3 }, text);

const { object } = fc.letrec<{ readonly value: string; readonly object: string; readonly list: string }>((
  tie,
) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    fc.oneof(text, fc.constantFrom("0", "-1.5e3", "true", "false", "null")),
    tie("object"),
    tie("list"),
  ),
  object: fc.tuple(
    fc.uniqueArray(fc.tuple(filler, key, filler, filler, tie("value"), filler), {
      maxLength: 4,
      selector: ([, key]) => JSON.parse(key),
    }),
    fc.boolean(),
    filler,
  ).map(([members, comma, end]) =>
    `{${members.map(([a, key, b, c, value, d]) => `${a}${key}${b}:${c}${value}${d}`).join(",")}${
      comma && members.length > 0 ? "," : ""
    }${end}}`
  ),
  list: fc.tuple(fc.array(fc.tuple(filler, tie("value"), filler), { maxLength: 4 }), fc.boolean(), filler)
    .map(([items, comma, end]) =>
      `[${items.map((parts) => parts.join("")).join(",")}${comma && items.length > 0 ? "," : ""}${end}]`
    ),
}));

const rangeOf = ({ offset, length }: Node) => ({ start: offset, end: offset + length });

/** The result of jsonc-parser in our format. */
function placeOf(node: Node): ReturnType<typeof locate>[number] {
  const children = node.children ?? [];
  switch (node.type) {
    case "array":
      return {
        kind: "list",
        ...rangeOf(node),
        items: children.map((child) => ({ ...rangeOf(child), value: rangeOf(child) })),
      };
    case "object":
      return {
        kind: "object",
        ...rangeOf(node),
        items: children.map((member) => {
          const [key, value] = member.children ?? [];
          if (key === undefined || value === undefined) throw new TypeError("half a member");
          return { ...rangeOf(member), key: key.value, value: rangeOf(value) };
        }),
      };
    default:
      return { kind: "plain", ...rangeOf(node), items: [] };
  }
}

Deno.test("locate() finds the same node as a full parser in any config", () => {
  fc.assert(
    fc.property(filler, object, filler, fc.array(fc.constantFrom("a", "b", "ab"), { maxLength: 3 }), (
      before,
      object,
      after,
      path,
    ) => {
      const text = before + object + after;
      const tree = parseTree(text, [], { allowTrailingComma: true });
      assert.ok(tree !== undefined, text);
      const nodes = Array.from(
        { length: path.length + 1 },
        (_, depth) => findNodeAtLocation(tree, path.slice(0, depth)),
      );
      const expected = nodes.filter((node) => node !== undefined).map(placeOf);
      assert.deepEqual(locate(text, path), expected, text);
    }),
    { numRuns: 1000 },
  );
});

Deno.test("locate() terminates for any input", () => {
  fc.assert(
    fc.property(object, fc.nat(), fc.constantFrom("", "x", '"', "/", "}"), (object, at, mark) => {
      const cut = object.slice(0, at % (object.length + 1)) + mark;
      try {
        locate(cut, ["a"]);
      } catch (error) {
        assert.ok(error instanceof TypeError || error instanceof SyntaxError, cut);
      }
    }),
    { numRuns: 1000 },
  );
});
