import assert from "node:assert/strict";
import { assertLinearWork } from "./linear_work.ts";

/** Runs this many steps, which the engine cannot optimize away. */
function step(count: number): void {
  let state = 1;
  for (let done = 0; done < count; done++) state = Math.imul(state, 48_271) ^ done;
  assert.ok(Number.isInteger(state));
}

Deno.test("assertLinearWork() accepts linear work", () => assertLinearWork((size) => step(size), 100_000));

Deno.test("assertLinearWork() throws for quadratic work", () => {
  assert.throws(() => assertLinearWork((size) => step(size ** 2), 2_000), /8 times the size took \d+/);
});
