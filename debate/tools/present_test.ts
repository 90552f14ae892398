import assert from "node:assert/strict";
import { assertLinearWork } from "@gateway/shared/testing";
import { MAX_RESULT, present, truncate, visible } from "./define_tool.ts";

Deno.test.each([
  { name: "colours", text: "\x1b[31mred\x1b[0m", shown: "red" },
  { name: "a window title", text: "\x1b]0;evil\x07ok", shown: "ok" },
  { name: "carriage returns", text: "a\r\nb\rc", shown: "a\nb\nc" },
  { name: "NUL and backspace", text: "a\0b\b", shown: "a\ufffdb\ufffd" },
  { name: "bidi overrides", text: "a\u202eb", shown: "a\ufffdb" },
  { name: "tag characters", text: "a\u{e0041}b", shown: "a\ufffdb" },
  { name: "lone surrogates", text: "a\ud800b", shown: "a\ufffdb" },
])("visible() does away with $name", ({ text, shown }) => {
  assert.equal(visible(text), shown);
});

Deno.test("visible() leaves lines, tabs and letters of every kind", () => {
  assert.equal(visible("ä\tß\n日本 😀 e\u0301"), "ä\tß\n日本 😀 e\u0301");
});

Deno.test("present() redacts before it cuts, so that no half of a secret is left", () => {
  const redact = (text: string) => text.replace(/<secret>.*?<\/secret>/g, "[REDACTED]");
  const text = `${"x".repeat(2600)}<secret>${"s".repeat(200)}</secret>${"y".repeat(3000)}`;
  assert.doesNotMatch(present(text, redact), /s{5}/);
});

Deno.test("present() takes linear time on unfinished escape sequences", () => {
  for (const unit of ["\x1b]", "\x1b["]) {
    assertLinearWork((size) => visible(unit.repeat(size / unit.length)), 400_000);
  }
});

Deno.test("truncate() leaves a text at the bound as it is", () => {
  const text = "x".repeat(MAX_RESULT);
  assert.equal(truncate(text), text);
  assert.equal(truncate(""), "");
});

Deno.test("truncate() keeps two thirds of the beginning and one third of the end", () => {
  const text = "a".repeat(5000) + "b".repeat(5000);
  const short = truncate(text);
  assert.ok(short.length <= MAX_RESULT);
  const [, head, omitted, total, tail] = /^(a+)\n\[\.\.\. (\d+) of (\d+) characters omitted \.\.\.\]\n(b+)$/
    .exec(short)!;
  assert.equal(Number(total), 10_000);
  assert.equal(head!.length + tail!.length + Number(omitted), 10_000);
  assert.ok(Math.abs(head!.length - 2 * tail!.length) <= 2);
});

Deno.test("truncate() never leaves half of a character", () => {
  for (let shift = 0; shift < 2; shift++) {
    assert.ok(truncate("x".repeat(shift) + "😀".repeat(5000)).isWellFormed());
  }
});
