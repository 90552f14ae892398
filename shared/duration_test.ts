import assert from "node:assert/strict";
import { formatDuration } from "./duration.ts";

Deno.test.each([
  { milliseconds: 0, text: "0s" },
  { milliseconds: 300, text: "300ms" },
  { milliseconds: 1_000, text: "1s" },
  { milliseconds: 2_500, text: "2.5s" },
  { milliseconds: 10_000, text: "10s" },
  { milliseconds: 60_000, text: "1m0s" },
  { milliseconds: 90_000, text: "1m30s" },
  { milliseconds: 600_000, text: "10m0s" },
  { milliseconds: 3_600_000, text: "1h0m0s" },
  { milliseconds: 5_445_000, text: "1h30m45s" },
  { milliseconds: 9_223_369_200_000, text: "2562047h0m0s" },
])("formatDuration() writes $milliseconds ms as $text", ({ milliseconds, text }) => {
  assert.equal(formatDuration(milliseconds), text);
});
