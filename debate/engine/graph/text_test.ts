import fc from "fast-check";
import assert from "node:assert/strict";
import { assertFast } from "../../testing/linear_time.ts";
import { fence } from "./text.ts";

Deno.test("fence() cannot be closed by what it holds", () => {
  const backticks = fc.stringMatching(/^[`\na]*$/);
  fc.assert(fc.property(backticks, (text) => {
    const [opening = "", ...rest] = fence(text).split("\n");
    assert.equal(rest.at(-1), opening);
    assert.ok(rest.slice(0, -1).every((line) => !line.includes(opening)));
  }));
});

Deno.test("fence() takes linear time", () => {
  assertFast("backticks", () => fence("` ".repeat(500_000)));
  assertFast("one run", () => fence("`".repeat(1_000_000)));
});
