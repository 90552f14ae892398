import assert from "node:assert/strict";
import { present, visible } from "./present.ts";

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
  const start = performance.now();
  visible("\x1b]".repeat(200_000));
  visible("\x1b[".repeat(200_000));
  assert.ok(performance.now() - start < 5000);
});
