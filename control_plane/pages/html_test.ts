import assert from "node:assert/strict";
import fc from "fast-check";
import { readHtml } from "../testing/html_reader.ts";
import { escapeHtml, markup } from "./html.ts";

Deno.test.each([
  { name: "tags", text: "<script>alert(1)</script>", escaped: "&lt;script&gt;alert(1)&lt;/script&gt;" },
  { name: "entities", text: "&lt;b&amp;", escaped: "&amp;lt;b&amp;amp;" },
  { name: "quotes", text: `"'\``, escaped: "&quot;&#39;&#96;" },
  { name: "NUL", text: "a\0b", escaped: "a&#xfffd;b" },
  { name: "carriage returns, which a parser would take for line ends", text: "a\rb", escaped: "a&#13;b" },
  { name: "lone surrogates", text: "a\ud800b", escaped: "a\ufffdb" },
  { name: "nothing else", text: "é日😀\u2028\u202e {{x}} ${x}", escaped: "é日😀\u2028\u202e {{x}} ${x}" },
])("escapeHtml() escapes $name", ({ text, escaped }) => {
  assert.equal(escapeHtml(text), escaped);
});

Deno.test("markup escapes text, also in lists, and leaves HTML alone", () => {
  const item = markup`<li>${"<"}</li>`;
  assert.equal(
    String(markup`<ul>${[item, [item], "&", 1]}</ul>`),
    "<ul><li>&lt;</li><li>&lt;</li>&amp;1</ul>",
  );
});

Deno.test("markup leaves out undefined and false, and keeps 0 and empty text", () => {
  assert.equal(String(markup`[${undefined}${false}${0}${""}]`), "[0]");
});

Deno.test("markup gives back what went in, between tags and in attributes", () => {
  fc.assert(fc.property(fc.string({ unit: "binary" }), (text) => {
    const [element] = readHtml(String(markup`<p title="${text}">${text}</p>`));
    const read = text.toWellFormed().replaceAll("\0", "\ufffd");
    assert.deepEqual(element, { tag: "p", attributes: { title: read }, text: read });
  }));
});
