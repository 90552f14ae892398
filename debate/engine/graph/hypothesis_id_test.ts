import assert from "node:assert/strict";
import { sampleHypothesis } from "../../testing/sample_state.ts";
import { findById, findLeading, findNamed, hypothesisKey } from "./hypothesis_id.ts";

Deno.test("hypothesisKey() takes 1, 01, H1, h_1 and H-1 for the same, and 10 for another", () => {
  assert.deepEqual(new Set(["1", "01", "H1", "h_1", "H-1"].map(hypothesisKey)), new Set(["1"]));
  assert.notEqual(hypothesisKey("10"), hypothesisKey("1"));
  assert.notEqual(hypothesisKey("pool"), hypothesisKey("ool"));
  assert.equal(hypothesisKey("heap"), "heap");
});

const POOL = sampleHypothesis();
const CACHE = sampleHypothesis({ id: "H-10", text: "The cache evicts hot keys after the deploy" });
const TABLE = [POOL, CACHE];

Deno.test("findById() keeps 1 and 10 apart", () => {
  assert.equal(findById(TABLE, "H-1"), POOL);
  assert.equal(findById(TABLE, "10"), CACHE);
  assert.equal(findById(TABLE, "100"), undefined);
});

Deno.test.each([
  { name: "an id in front", text: "10: evictions", found: CACHE },
  { name: "a bold id in front", text: "**H-1** pool", found: POOL },
  { name: "a marker", text: "most likely HYPOTHESIS-10, as shown", found: CACHE },
  { name: "a marker in brackets", text: "see [hypothesis:1]", found: POOL },
  { name: "the same words", text: "the  connection pool is EXHAUSTED", found: POOL },
  { name: "two markers", text: "either HYPOTHESIS-1 or HYPOTHESIS-10", found: undefined },
  { name: "other words", text: "a cosmic ray", found: undefined },
  { name: "nothing", text: "", found: undefined },
])("findNamed() with $name", ({ text, found }) => {
  assert.equal(findNamed(TABLE, text), found);
});

Deno.test("findLeading() goes by the wording where no id is named", () => {
  assert.equal(findLeading(TABLE, "hot keys are evicted by the cache after the last deploy"), CACHE);
  assert.equal(findLeading(TABLE, "a cosmic ray"), undefined);
  assert.equal(findLeading(TABLE, ""), undefined);
});
