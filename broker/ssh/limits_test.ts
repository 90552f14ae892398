import assert from "node:assert/strict";
import { DEFAULT_LIMITS, formatDuration } from "./limits.ts";

Deno.test.each([
  { milliseconds: 0, text: "0s" },
  { milliseconds: 300, text: "300ms" },
  { milliseconds: 1_000, text: "1s" },
  { milliseconds: 2_500, text: "2.5s" },
  { milliseconds: 10_000, text: "10s" },
  { milliseconds: 60_000, text: "1m0s" },
  { milliseconds: 90_000, text: "1m30s" },
  { milliseconds: DEFAULT_LIMITS.commandMs, text: "10m0s" },
  { milliseconds: 3_600_000, text: "1h0m0s" },
  { milliseconds: 5_445_000, text: "1h30m45s" },
])("formatDuration() writes $milliseconds ms as $text", ({ milliseconds, text }) => {
  assert.equal(formatDuration(milliseconds), text);
});
