import { FakeClock } from "@gateway/shared/testing";
import assert from "node:assert/strict";
import { toolCache } from "./tool_cache.ts";

const RESULT = { text: "200 OK", role: "Primary Diagnosis", round: 1 } as const;

Deno.test("toolCache() finds the same call of the same round, whatever the order of keys", () => {
  const cache = toolCache(new FakeClock());
  cache.store("http_get", { a: 1, b: [{ c: 2, d: 3 }] }, RESULT);
  assert.equal(cache.find("http_get", { b: [{ d: 3, c: 2 }], a: 1 }, 1)?.text, "200 OK");
});

Deno.test.each([
  { name: "another tool", tool: "query_loki", args: { a: 1 }, round: 1 },
  { name: "other arguments", tool: "http_get", args: { a: "1" }, round: 1 },
])("toolCache() does not take it for $name", ({ tool, args, round }) => {
  const cache = toolCache(new FakeClock());
  cache.store("http_get", { a: 1 }, RESULT);
  assert.equal(cache.find(tool, { ...args }, round), undefined);
});

Deno.test("toolCache() tells an object from a list of its entries", () => {
  const cache = toolCache(new FakeClock());
  cache.store("http_get", { x: { a: 1 } }, RESULT);
  assert.equal(cache.find("http_get", { x: [["a", 1]] }, 1), undefined);
});

Deno.test("toolCache() forgets after 300 s", async () => {
  const clock = new FakeClock();
  const cache = toolCache(clock);
  cache.store("http_get", {}, RESULT);
  await clock.advance(300_000);
  assert.ok(cache.find("http_get", {}, 1));
  await clock.advance(1);
  assert.equal(cache.find("http_get", {}, 1), undefined);
});
