import assert from "node:assert/strict";
import fc from "fast-check";
import { decodeContent, describeContent, encodeContent } from "./transfer.ts";

Deno.test.each([
  ["text as UTF-8", "größe\n", false, [103, 114, 195, 182, 195, 159, 101, 10]],
  ["empty text", "", false, []],
  ["empty base64", "", true, []],
  ["text that looks like base64", "AAE=", false, [65, 65, 69, 61]],
  ["base64", "AAEC/w==", true, [0, 1, 2, 255]],
  ["base64 with line ends", "AAEC\r\n/w==\n", true, [0, 1, 2, 255]],
])("decodeContent() takes %s", (_name, content, base64, bytes) => {
  assert.deepEqual([...decodeContent(content, { base64 })], bytes);
});

Deno.test.each([
  { name: "base64 without padding", content: "AAEC/w" },
  { name: "base64 with a blank", content: "AAEC /w==" },
  { name: "base64 of the URL alphabet", content: "AAEC_w==" },
  { name: "base64 with more behind its end", content: "AA==AA==" },
  { name: "text for base64", content: "hello, world" },
])("decodeContent() refuses $name", ({ content }) => {
  assert.throws(() => decodeContent(content, { base64: true }), {
    code: "invalid_request",
    message: /^bad request: invalid base64 content: /,
  });
});

Deno.test("decodeContent() refuses text that UTF-8 cannot hold", () => {
  assert.throws(() => decodeContent("a\udc00", { base64: false }), {
    code: "invalid_request",
    message: "bad request: content is not well-formed Unicode: send it as base64",
  });
});

Deno.test.each([
  ["nothing as text", [], { content: "", base64: false }],
  ["UTF-8 as text", [0xc3, 0xb6, 0x0a], { content: "ö\n", base64: false }],
  ["a byte order mark and all", [0xef, 0xbb, 0xbf, 0x61], { content: "\ufeffa", base64: false }],
  ["a NUL as base64", [0x61, 0], { content: "YQA=", base64: true }],
  ["what is not UTF-8 as base64", [0xff], { content: "/w==", base64: true }],
])("encodeContent() shows %s", (_name, bytes, expected) => {
  assert.deepEqual(encodeContent(Uint8Array.from(bytes)), expected);
});

Deno.test.each([
  { name: "text", content: "a\nb\n", head: "a\nb\n" },
  { name: "the first twenty lines", content: "x\n".repeat(30), head: `${"x\n".repeat(19)}x` },
  {
    name: "the start of a long line, no character in half",
    content: "é".repeat(1000) + "\u{1f600}".repeat(1000),
    head: "é".repeat(1000) + "\u{1f600}".repeat(250),
  },
  { name: "nothing of what is not text", content: "a\0b", head: "" },
])("describeContent() shows an approver $name", ({ content, head }) => {
  const bytes = new TextEncoder().encode(content);
  const { content_head, content_bytes, content_sha256 } = describeContent(bytes);
  assert.deepEqual([content_head, content_bytes], [head, bytes.length]);
  assert.match(content_sha256, /^[0-9a-f]{64}$/);
});

Deno.test("decodeContent() undoes encodeContent()", () => {
  fc.assert(fc.property(fc.uint8Array({ maxLength: 64 }), (bytes) => {
    const { content, base64 } = encodeContent(bytes);
    assert.deepEqual([...decodeContent(content, { base64 })], [...bytes]);
  }));
});
