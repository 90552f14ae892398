import assert from "node:assert/strict";
import fc from "fast-check";
import { findNodeAtLocation, type Node, parseTree } from "jsonc-parser";
import { locate, type Place } from "./locate.ts";

const trivia = fc.array(fc.constantFrom(" ", "\n", "\r\n", "\t", "// }]\n", '// "\r\n', '/* {" */', "/**/"), {
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
    fc.uniqueArray(fc.tuple(trivia, key, trivia, trivia, tie("value"), trivia), {
      maxLength: 4,
      selector: ([, key]) => JSON.parse(key),
    }),
    fc.boolean(),
    trivia,
  ).map(([members, comma, end]) =>
    `{${members.map(([a, key, b, c, value, d]) => `${a}${key}${b}:${c}${value}${d}`).join(",")}${
      comma && members.length > 0 ? "," : ""
    }${end}}`
  ),
  list: fc.tuple(fc.array(fc.tuple(trivia, tie("value"), trivia), { maxLength: 4 }), fc.boolean(), trivia)
    .map(([items, comma, end]) =>
      `[${items.map((parts) => parts.join("")).join(",")}${comma && items.length > 0 ? "," : ""}${end}]`
    ),
}));

const rangeOf = ({ offset, length }: Node) => ({ start: offset, end: offset + length });

/** What jsonc-parser has of it, in our words. */
function placeOf(node: Node): Place {
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

Deno.test("locate() finds in any config what a parser of all of it finds", () => {
  fc.assert(
    fc.property(trivia, object, trivia, fc.array(fc.constantFrom("a", "b", "ab"), { maxLength: 3 }), (
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

Deno.test("locate() ends, whatever it is given", () => {
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
