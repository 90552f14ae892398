import assert from "node:assert/strict";
import { withDeadline } from "./deadline.ts";
import { FakeClock } from "./testing/fake_clock.ts";

const late = () => new Error("too late");

Deno.test("withDeadline() gives the result of a task in time and leaves no timer", async () => {
  const clock = new FakeClock();
  assert.equal(await withDeadline({ clock, ms: 10, late }, () => Promise.resolve(7)), 7);
  assert.equal(clock.sleeping, 0);
});

Deno.test("withDeadline() ends a task that does not heed its signal, at the deadline and not before", async () => {
  const clock = new FakeClock();
  let seen: AbortSignal | undefined;
  let failure: unknown;
  const done = withDeadline({ clock, ms: 10, late }, (signal) => {
    seen = signal;
    return new Promise<void>(() => {});
  }).catch((error) => failure = error);
  await clock.advance(9);
  assert.equal(failure, undefined);
  assert.equal(seen?.aborted, false);
  await clock.advance(1);
  await done;
  assert.match(String(failure), /too late/);
  assert.equal(seen?.aborted, true);
});

Deno.test("withDeadline() passes on what the task throws", async () => {
  const clock = new FakeClock();
  await assert.rejects(
    withDeadline({ clock, ms: 10, late }, () => Promise.reject(new Error("broken"))),
    /broken/,
  );
  assert.equal(clock.sleeping, 0);
});

Deno.test("withDeadline() ends with the caller's signal, before or during the task", async () => {
  const clock = new FakeClock();
  const controller = new AbortController();
  const never = () => new Promise<void>(() => {});
  const running = withDeadline({ clock, ms: 10, late, signal: controller.signal }, never);
  controller.abort(new Error("gone"));
  await assert.rejects(running, /gone/);
  await assert.rejects(withDeadline({ clock, ms: 10, late, signal: controller.signal }, never), /gone/);
  assert.equal(clock.sleeping, 0);
});
