import assert from "node:assert/strict";
import { every } from "../clock.ts";
import { FakeClock } from "./fake_clock.ts";

Deno.test("FakeClock wakes sleepers in the order of their time, each at its own", async () => {
  const clock = new FakeClock(0);
  const woken: string[] = [];
  for (const ms of [300, 100, 200, 1000]) {
    void clock.sleep(ms).then(() => woken.push(`${ms} at ${clock.now()}`));
  }
  await clock.advance(300);
  assert.deepEqual(woken, ["100 at 100", "200 at 200", "300 at 300"]);
  assert.equal(clock.sleeping, 1);
});

Deno.test("FakeClock runs a periodic task once a period", async () => {
  const clock = new FakeClock(0);
  const stop = new AbortController();
  const runs: number[] = [];
  const running = every({ clock, seconds: 10, signal: stop.signal }, () => void runs.push(clock.now()));
  await clock.advance(35_000);
  assert.deepEqual(runs, [10_000, 20_000, 30_000]);
  stop.abort();
  await running;
  assert.equal(clock.sleeping, 0);
});

Deno.test("FakeClock ends a sleep that is aborted", async () => {
  const clock = new FakeClock();
  await assert.rejects(clock.sleep(1, AbortSignal.abort(new Error("before"))), { message: "before" });
  const stop = new AbortController();
  const sleeping = clock.sleep(1000, stop.signal);
  stop.abort(new Error("during"));
  await assert.rejects(sleeping, { message: "during" });
  assert.equal(clock.sleeping, 0);
});
