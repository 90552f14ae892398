import assert from "node:assert/strict";
import type { Clock } from "./clock.ts";
import { finish, finishInSlices, type Steps } from "./steps.ts";

function* count(to: number): Steps<number> {
  for (let step = 0; step < to; step++) yield;
  return to;
}

function* fail(): Steps<never> {
  yield;
  throw new Error("the last step");
}

/** A clock on which every look takes a millisecond, and the number of its pauses. */
function slowClock(msALook: number) {
  let [now, pauses] = [0, 0];
  const clock: Clock = {
    now: () => now += msALook,
    sleep: (ms) => {
      assert.equal(ms, 1);
      pauses++;
      return Promise.resolve();
    },
  };
  return { clock, pauses: () => pauses };
}

Deno.test("finish() gives the result without a pause", () => {
  assert.equal(finish(count(0)), 0);
  assert.equal(finish(count(100)), 100);
  assert.throws(() => finish(fail()), /the last step/);
});

Deno.test.each([
  { name: "short work not at all", steps: 3, msALook: 0.25, pauses: 0 },
  { name: "long work every millisecond", steps: 100, msALook: 0.25, pauses: 25 },
  { name: "slow steps after each", steps: 10, msALook: 50, pauses: 10 },
  { name: "no work where time stands still", steps: 100, msALook: 0, pauses: 0 },
])("finishInSlices() pauses $name", async ({ steps, msALook, pauses }) => {
  const slow = slowClock(msALook);
  assert.equal(await finishInSlices(count(steps), slow.clock), steps);
  assert.equal(slow.pauses(), pauses);
});

Deno.test("finishInSlices() fails with what the computation throws", async () => {
  await assert.rejects(finishInSlices(fail(), slowClock(50).clock), /the last step/);
});
