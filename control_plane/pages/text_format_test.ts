import assert from "node:assert/strict";
import { formatCount, formatDuration, formatUtc } from "./html.ts";

Deno.test.each([
  { ms: -5000, text: "0 s" },
  { ms: 999, text: "0 s" },
  { ms: 59_999, text: "59 s" },
  { ms: 60_000, text: "1 min" },
  { ms: 99_000, text: "1 min 39 s" },
  { ms: 3_600_000, text: "1 h" },
  { ms: 3_660_000, text: "1 h 1 min" },
  { ms: 86_400_000, text: "1 day" },
  { ms: 3 * 86_400_000 + 4 * 3_600_000, text: "3 days 4 h" },
])("formatDuration() of $ms ms is $text", ({ ms, text }) => {
  assert.equal(formatDuration(ms), text);
});

Deno.test("formatUtc() names the zone, and says when it knows no time", () => {
  assert.equal(formatUtc(Date.UTC(2026, 0, 2, 3, 4, 5, 678)), "2026-01-02 03:04:05 UTC");
  assert.equal(formatUtc(NaN), "at an unknown time");
});

Deno.test.each([
  { count: 0, text: "0" },
  { count: 999, text: "999" },
  { count: 61_440, text: "61,440" },
  { count: 1_234_567, text: "1,234,567" },
])("formatCount() of $count is $text", ({ count, text }) => {
  assert.equal(formatCount(count), text);
});
