import assert from "node:assert/strict";
import { formatDuration } from "@gateway/shared/text";
import { parseDuration } from "./values.ts";

Deno.test.each<{ text: string; seconds: number; shown: string }>([
  { text: "2h", seconds: 7200, shown: "2h0m0s" },
  { text: "30m", seconds: 1800, shown: "30m0s" },
  { text: "2d", seconds: 172_800, shown: "48h0m0s" },
  { text: "1d12h", seconds: 129_600, shown: "36h0m0s" },
  { text: "90s", seconds: 90, shown: "1m30s" },
  { text: "1h30m", seconds: 5400, shown: "1h30m0s" },
  { text: "1.5h", seconds: 5400, shown: "1h30m0s" },
  { text: "30m1h", seconds: 5400, shown: "1h30m0s" },
  { text: "500ms500000us", seconds: 1, shown: "1s" },
  { text: ".5m", seconds: 30, shown: "30s" },
  { text: "1.h", seconds: 3600, shown: "1h0m0s" },
  { text: "2562047h", seconds: 9_223_369_200, shown: "2562047h0m0s" },
])("parseDuration() reads $text, and formatDuration() shows it as $shown", ({ text, seconds, shown }) => {
  assert.equal(parseDuration(text), seconds);
  assert.equal(formatDuration(seconds * 1000), shown);
});

Deno.test.each<{ name: string; text: string }>([
  { name: "nothing", text: "" },
  { name: "a number without unit", text: "60" },
  { name: "a unit without number", text: "h" },
  { name: "a dot without digits", text: ".h" },
  { name: "weeks", text: "1w" },
  { name: "a sign", text: "+1h" },
  { name: "a negative time", text: "-1h" },
  { name: "a blank", text: "1h 30m" },
  { name: "an exponent", text: "1e3s" },
  { name: "digits of another script", text: "١h" },
  { name: "no time at all", text: "0s" },
  { name: "less than a second", text: "999ms" },
  { name: "a second and a part", text: "1.5s" },
  { name: "more than 64 bits of nanoseconds", text: "2562048h" },
  { name: "very many digits", text: `${"9".repeat(400)}h` },
])("parseDuration() refuses $name", ({ text }) => {
  assert.throws(() => parseDuration(text), { code: "invalid_request", message: /^Cannot read duration "/ });
});
