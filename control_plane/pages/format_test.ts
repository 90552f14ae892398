import assert from "node:assert/strict";
import { formatCount, formatUtc } from "./format.ts";

Deno.test("formatUtc() adds the time zone and reports an unknown time", () => {
  assert.equal(formatUtc(Date.UTC(2026, 0, 2, 3, 4, 5, 678)), "2026-01-02 03:04:05 UTC");
  assert.equal(formatUtc(NaN), "at an unknown time");
});

Deno.test.each([
  { count: 0, text: "0" },
  { count: 999, text: "999" },
  { count: 61_440, text: "61,440" },
  { count: 1_234_567, text: "1,234,567" },
])("formatCount() of $count returns $text", ({ count, text }) => {
  assert.equal(formatCount(count), text);
});
