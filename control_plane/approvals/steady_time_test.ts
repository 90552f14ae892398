import assert from "node:assert/strict";
import { FakeClock } from "@gateway/shared/testing";
import { SteadyTime } from "./approval.ts";

Deno.test("now() follows the clock, and stands still for a moment when it is set back", async () => {
  const clock = new FakeClock(1_000_000);
  const time = new SteadyTime(clock);
  await clock.advance(500);
  assert.equal(time.now(), 1_000_500);
  await clock.advance(-86_400_000);
  assert.equal(time.now(), 1_000_500);
  await clock.advance(20);
  assert.equal(time.now(), 1_000_520);
});

Deno.test("onClock() and at() translate to what the clock shows now, and back", async () => {
  const clock = new FakeClock(1_000_000);
  const time = new SteadyTime(clock);
  await clock.advance(-600_000);
  const now = time.now();
  assert.equal(time.onClock(now), 400_000);
  assert.equal(time.onClock(now - 300), 399_700);
  assert.equal(time.at(399_700), now - 300);
  assert.equal(time.at(500_000), now, "what the clock has not shown yet is now");
});
