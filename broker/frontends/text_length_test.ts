import assert from "node:assert/strict";
import { textLength } from "./user_limit.ts";

Deno.test.each([
  { name: "counts the characters of strings", value: "x".repeat(1000), least: 1000, most: 1050 },
  { name: "counts what is nested", value: { a: [{ b: "x".repeat(1000) }] }, least: 1000, most: 1100 },
  { name: "counts names", value: { ["x".repeat(1000)]: 1 }, least: 1000, most: 1050 },
  { name: "counts what has no text", value: new Array(1000).fill(null), least: 4000, most: 30_000 },
  {
    name: "counts each of what stands there twice",
    value: ["x".repeat(500), "x".repeat(500)],
    least: 1000,
    most: 1100,
  },
  { name: "takes numbers that JSON does not know", value: 1n, least: 1, most: 50 },
])("textLength() $name", ({ value, least, most }) => {
  const length = textLength(value);
  assert.ok(length >= least && length <= most, `${length}`);
});
