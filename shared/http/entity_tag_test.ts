import assert from "node:assert/strict";
import { entityTagOf, isStrongEntityTag, namesEntityTag, readIfNoneMatch } from "./entity_tag.ts";

Deno.test("entityTagOf() is the SHA-256 of the text, as RFC 9110 writes a strong tag", () => {
  // printf abc | sha256sum | xxd -r -p | base64 | tr +/ -_
  assert.equal(entityTagOf("abc"), '"ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0"');
  assert.ok(isStrongEntityTag(entityTagOf("")));
});

Deno.test.each([
  { name: "nothing", header: null, names: false },
  { name: "the tag", header: '"a"', names: true },
  { name: "the tag, weak", header: 'W/"a"', names: true },
  { name: "another tag", header: '"b"', names: false },
  { name: "a tag that begins like it", header: '"ab"', names: false },
  { name: "a list with the tag", header: '"b", W/"c","a"', names: true },
  { name: "a comma within a tag", header: '"b,a"', names: false },
  { name: "anything", header: "*", names: true },
  { name: "anything in a list", header: '*, "a"', names: false },
  { name: "the tag without quotes", header: "a", names: false },
  { name: "the tag with an open quote", header: '"a', names: false },
  { name: "the tag and something else", header: '"a" "b"', names: false },
  { name: "an empty member", header: '"a",', names: false },
  { name: "a line break", header: '"a"\r\nx: y', names: false },
  { name: "a tab", header: '"b",\t"a"', names: false },
])("namesEntityTag() in $name: $names", ({ header, names }) => {
  assert.equal(namesEntityTag(header, '"a"'), names);
});

Deno.test("readIfNoneMatch() gives back what it understands as it is", () => {
  assert.equal(readIfNoneMatch('"a", W/"b"'), '"a", W/"b"');
  assert.equal(readIfNoneMatch("a"), undefined);
  assert.equal(readIfNoneMatch(`${'"a", '.repeat(100_000)}a`), undefined, "at once");
});

Deno.test.each(["", "a", 'W/"a"', '"a', '""', '"a", "b"', '"\u00e4"', `"${"a".repeat(129)}"`])(
  "isStrongEntityTag() refuses %o",
  (value) => assert.equal(isStrongEntityTag(value), false),
);
