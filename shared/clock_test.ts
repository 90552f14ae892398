import assert from "node:assert/strict";
import { type Clock, Deadline, finish, finishInSlices, type Steps, within } from "./clock.ts";
import { FakeClock } from "./testing/fake_clock.ts";

const late = () => new Error("too late");
const never = () => new Promise<never>(() => {});

/** A signal that counts its listeners. */
class CountedSignal {
  readonly controller = new AbortController();
  readonly #listeners = new Set<unknown>();

  constructor() {
    const { signal } = this.controller;
    const [add, remove] = [signal.addEventListener.bind(signal), signal.removeEventListener.bind(signal)];
    signal.addEventListener = (type: string, listener: unknown, options?: unknown) => {
      this.#listeners.add(listener);
      add(type, listener as EventListener, options as AddEventListenerOptions);
    };
    signal.removeEventListener = (type: string, listener: unknown) => {
      this.#listeners.delete(listener);
      remove(type, listener as EventListener);
    };
  }

  get signal(): AbortSignal {
    return this.controller.signal;
  }

  get listening(): number {
    return this.#listeners.size;
  }
}

Deno.test.each([
  { name: "the result of a step", make: () => () => Promise.resolve(7) },
  { name: "the result of a promise", make: () => Promise.resolve(7) },
  { name: "the rejection of a step", make: () => () => Promise.reject(new Error("broken")), fails: true },
  { name: "the rejection of a promise", make: () => Promise.reject(new Error("broken")), fails: true },
  {
    name: "a synchronous error of a step",
    make: () => () => {
      throw new Error("broken");
    },
    fails: true,
  },
])("within() passes on $name and leaves no timer and no listener", async ({ make, fails = false }) => {
  const clock = new FakeClock();
  const counted = new CountedSignal();
  const waiting = within({ clock, ms: 10, late, signal: counted.signal }, make());
  if (fails) await assert.rejects(waiting, /^Error: broken$/);
  else assert.equal(await waiting, 7);
  assert.equal(clock.sleeping, 0);
  assert.equal(counted.listening, 0);
});

Deno.test("within() ends a step that ignores its signal exactly when the time is up", async () => {
  const clock = new FakeClock();
  const counted = new CountedSignal();
  let ended: AbortSignal | undefined;
  let outcome = "none";
  const waiting = within({ clock, ms: 10, late, signal: counted.signal }, (signal) => {
    ended = signal;
    return never();
  }).catch((error) => outcome = error.message);
  await clock.advance(9);
  assert.equal(outcome, "none");
  assert.equal(ended?.aborted, false);
  await clock.advance(1);
  assert.equal(outcome, "too late");
  assert.match(String(ended?.reason), /too late/);
  await waiting;
  assert.equal(counted.listening, 0);
});

Deno.test.each([
  { name: "the time", abort: false, error: /^Error: too late$/ },
  { name: "the signal", abort: true, error: /^Error: stopped: gone$/ },
])("within() reports $name as the cause of its end", async ({ abort, error }) => {
  const clock = new FakeClock();
  const counted = new CountedSignal();
  const aborted = (reason: unknown) => new Error(`stopped: ${reason}`);
  const waiting = assert.rejects(
    within({ clock, ms: 10, late, aborted, signal: counted.signal }, never),
    error,
  );
  if (abort) counted.controller.abort("gone");
  else await clock.advance(10);
  await waiting;
  assert.equal(clock.sleeping, 0);
});

Deno.test("within() rejects by default with a TimeoutError or with the signal's reason", async () => {
  const clock = new FakeClock();
  const waiting = assert.rejects(within({ clock, ms: 10 }, never), { name: "TimeoutError" });
  await clock.advance(10);
  await waiting;
  const reason = new Error("gone");
  await assert.rejects(within({ clock, signal: AbortSignal.abort(reason) }, never), reason);
});

Deno.test("within() starts no step if the signal is already aborted", async () => {
  const clock = new FakeClock();
  let begun = false;
  const step = () => {
    begun = true;
    return never();
  };
  await assert.rejects(within({ clock, ms: 10, signal: AbortSignal.abort(new Error("gone")) }, step), /gone/);
  assert.equal(begun, false);
  assert.equal(clock.sleeping, 0);
});

Deno.test("within() rejects if the step itself aborts the signal at its start", async () => {
  const clock = new FakeClock();
  const controller = new AbortController();
  const step = () => {
    controller.abort(new Error("gone"));
    return never();
  };
  await assert.rejects(within({ clock, ms: 10, signal: controller.signal }, step), /gone/);
  assert.equal(clock.sleeping, 0);
});

Deno.test("within() without a time limit starts no timer", async () => {
  const clock = new FakeClock();
  const controller = new AbortController();
  const waiting = assert.rejects(within({ clock, signal: controller.signal }, never), /gone/);
  assert.equal(clock.sleeping, 0);
  controller.abort(new Error("gone"));
  await waiting;
});

const LATE_ENDS = [
  { name: "when the time is up", isAborted: false },
  { name: "when the signal is aborted", isAborted: true },
];

Deno.test.each(LATE_ENDS)("within() releases a late result once if it ended $name", async ({ isAborted }) => {
  const clock = new FakeClock();
  const controller = new AbortController();
  const opening = Promise.withResolvers<string>();
  const released: string[] = [];
  const release = (result: string) => released.push(result);
  const bound = { clock, ms: 10, late, signal: controller.signal, release };
  const waiting = assert.rejects(within(bound, () => opening.promise));
  if (isAborted) controller.abort(new Error("gone"));
  else await clock.advance(10);
  await waiting;
  assert.deepEqual(released, []);
  opening.resolve("connection");
  await clock.advance(0);
  assert.deepEqual(released, ["connection"]);
});

Deno.test("within() never releases a result that it returned", async () => {
  const clock = new FakeClock();
  const controller = new AbortController();
  let released = 0;
  const bound = { clock, ms: 10, signal: controller.signal, release: () => released++ };
  const waiting = within(bound, Promise.resolve(7));
  assert.equal(await waiting, 7);
  controller.abort();
  await clock.advance(20);
  assert.equal(released, 0);
});

Deno.test("within() releases a result that arrives in the turn of the abort, before or after", async () => {
  for (const isFirst of [true, false]) {
    const clock = new FakeClock();
    const controller = new AbortController();
    const opening = Promise.withResolvers<number>();
    const seen: string[] = [];
    const bound = { clock, signal: controller.signal, release: () => seen.push("released") };
    const waiting = within(bound, opening.promise).then(() => seen.push("given"), () => seen.push("ended"));
    if (isFirst) opening.resolve(7);
    controller.abort(new Error("gone"));
    if (!isFirst) opening.resolve(7);
    await waiting;
    await clock.advance(0);
    assert.deepEqual(seen.sort(), ["ended", "released"]);
  }
});

/** Counts unhandled rejections. Without this listener, they would end the process. */
async function countUnhandled(run: () => Promise<void>): Promise<number> {
  let count = 0;
  const onUnhandled = (event: Event) => {
    event.preventDefault();
    count++;
  };
  addEventListener("unhandledrejection", onUnhandled);
  try {
    await run();
    await new FakeClock().advance(0);
  } finally {
    removeEventListener("unhandledrejection", onUnhandled);
  }
  return count;
}

Deno.test.each(LATE_ENDS)("within() ignores a rejection after its end $name", async ({ isAborted }) => {
  const unhandled = await countUnhandled(async () => {
    const clock = new FakeClock();
    const controller = new AbortController();
    const opening = Promise.withResolvers<never>();
    const waiting = assert.rejects(
      within({ clock, ms: 10, signal: controller.signal }, () => opening.promise),
    );
    if (isAborted) controller.abort(new Error("gone"));
    else await clock.advance(10);
    await waiting;
    opening.reject(new Error("late"));
  });
  assert.equal(unhandled, 0);
});

Deno.test("within() ignores the rejection of a promise if the signal is already aborted", async () => {
  const unhandled = await countUnhandled(async () => {
    const failing = Promise.resolve().then(() => {
      throw new Error("late");
    });
    await assert.rejects(
      within({ clock: new FakeClock(), signal: AbortSignal.abort(new Error("gone")) }, failing),
      /gone/,
    );
  });
  assert.equal(unhandled, 0);
});

Deno.test.each([
  ["throws", () => {
    throw new Error("close failed");
  }],
  ["rejects", () => Promise.reject(new Error("close failed"))],
])("within() ignores the failure of a release that %s", async (_name, release) => {
  const unhandled = await countUnhandled(async () => {
    const signal = AbortSignal.abort(new Error("gone"));
    await assert.rejects(within({ clock: new FakeClock(), signal, release }, Promise.resolve(7)), /gone/);
  });
  assert.equal(unhandled, 0);
});

Deno.test("Deadline aborts its signal once when the time is up", async () => {
  const clock = new FakeClock();
  const counted = new CountedSignal();
  using deadline = new Deadline({ clock, ms: 10, late, signal: counted.signal });
  const { signal } = deadline;
  await clock.advance(9);
  assert.equal(signal.aborted, false);
  await clock.advance(1);
  counted.controller.abort(new Error("gone"));
  assert.match(String(signal.reason), /too late/);
});

Deno.test("Deadline aborts its signal if the caller's signal is aborted, before the start or later", () => {
  const clock = new FakeClock();
  const aborted = (reason: unknown) => new Error(`stopped: ${reason}`);
  using early = new Deadline({ clock, ms: 10, aborted, signal: AbortSignal.abort("gone") });
  assert.match(String(early.signal.reason), /stopped: gone/);
  assert.equal(clock.sleeping, 0);
  const controller = new AbortController();
  using later = new Deadline({ clock, ms: 10, aborted, signal: controller.signal });
  controller.abort("gone");
  assert.match(String(later.signal.reason), /stopped: gone/);
  assert.equal(clock.sleeping, 0);
});

Deno.test("Deadline does not abort its signal after disposal", async () => {
  const clock = new FakeClock();
  const counted = new CountedSignal();
  const deadline = new Deadline({ clock, ms: 10, signal: counted.signal });
  deadline[Symbol.dispose]();
  assert.equal(counted.listening, 0);
  assert.equal(clock.sleeping, 0);
  await clock.advance(20);
  counted.controller.abort();
  assert.equal(deadline.signal.aborted, false);
});

function* count(to: number): Steps<number> {
  for (let step = 0; step < to; step++) yield;
  return to;
}

function* fail(): Steps<never> {
  yield;
  throw new Error("the last step");
}

/** A clock that advances one millisecond per read, and the number of its pauses. */
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

Deno.test("finish() returns the result without a pause", () => {
  assert.equal(finish(count(0)), 0);
  assert.equal(finish(count(100)), 100);
  assert.throws(() => finish(fail()), /the last step/);
});

Deno.test.each([
  { name: "short work not at all", steps: 3, msALook: 0.25, pauses: 0 },
  { name: "long work every millisecond", steps: 100, msALook: 0.25, pauses: 25 },
  { name: "slow steps after each", steps: 10, msALook: 50, pauses: 10 },
  { name: "no pauses if the clock stops", steps: 100, msALook: 0, pauses: 0 },
])("finishInSlices() pauses $name", async ({ steps, msALook, pauses }) => {
  const slow = slowClock(msALook);
  assert.equal(await finishInSlices(count(steps), slow.clock), steps);
  assert.equal(slow.pauses(), pauses);
});

Deno.test("finishInSlices() rejects with the error of the computation", async () => {
  await assert.rejects(finishInSlices(fail(), slowClock(50).clock), /the last step/);
});
