import assert from "node:assert/strict";
import { settledWithin, waitFor } from "./phase.ts";

const LONG = 60_000;
const bound = (milliseconds: number, signal?: AbortSignal) => ({
  milliseconds,
  onTimeout: () => new Error("time is up"),
  stops: [{ signal, onAbort: (reason: unknown) => new Error(`stopped: ${reason}`) }],
});
const never = new Promise<never>(() => {});

Deno.test("waitFor() gives the result of the step", async () => {
  assert.equal(await waitFor(Promise.resolve(7), bound(LONG)), 7);
});

Deno.test("waitFor() passes the step's own error on", async () => {
  await assert.rejects(waitFor(Promise.reject(new Error("own")), bound(LONG)), /^Error: own$/);
});

Deno.test("waitFor() ends when the time is up", async () => {
  await assert.rejects(waitFor(never, bound(1)), /^Error: time is up$/);
});

Deno.test("waitFor() ends when a signal is aborted, before or during the wait", async () => {
  await assert.rejects(waitFor(never, bound(LONG, AbortSignal.abort("gone"))), /^Error: stopped: gone$/);
  const controller = new AbortController();
  const waiting = assert.rejects(waitFor(never, bound(LONG, controller.signal)), /^Error: stopped: gone$/);
  controller.abort("gone");
  await waiting;
});

Deno.test("waitFor() tolerates a step that fails after the wait has ended", async () => {
  const { promise, reject } = Promise.withResolvers<never>();
  await assert.rejects(waitFor(promise, bound(LONG, AbortSignal.abort("gone"))));
  reject(new Error("late"));
  await assert.rejects(promise, /late/);
});

Deno.test("waitFor() tolerates a step that fails after a wait that was over before it began", async () => {
  const failing = Promise.resolve().then(() => {
    throw new Error("late");
  });
  await assert.rejects(waitFor(failing, bound(LONG, AbortSignal.abort("gone"))), /^Error: stopped: gone$/);
});

Deno.test("settledWithin() gives undefined for a step that fails or takes too long", async () => {
  assert.equal(await settledWithin(Promise.resolve("done"), LONG), "done");
  assert.equal(await settledWithin(Promise.reject(new Error("failed")), LONG), undefined);
  assert.equal(await settledWithin(never, 1), undefined);
});
