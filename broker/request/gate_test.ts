import assert from "node:assert/strict";
import { AppError } from "@gateway/shared/errors";
import { Gate } from "./gate.ts";

const NEVER = new AbortController().signal;

/** Enters, and shows whether there was room. */
function enter(gate: Gate, size: number, signal = NEVER) {
  const entered = { has: false, leave: () => {}, failure: undefined as unknown };
  gate.enter(signal, { size }).then(
    (place) => Object.assign(entered, { has: true, leave: () => place[Symbol.dispose]() }),
    (error) => entered.failure = error instanceof AppError ? error.code : error,
  );
  return entered;
}

async function settle(): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, 0));
}

Deno.test("Gate admits what fits, and the others in their order when there is room", async () => {
  const gate = new Gate(100);
  const entered = [60, 40, 50, 50, 1].map((size) => enter(gate, size));
  const states = () => entered.map(({ has }) => has);
  await settle();
  assert.deepEqual(states(), [true, true, false, false, false]);
  entered[1]?.leave();
  await settle();
  // The last one would fit, but the others have waited longer.
  assert.deepEqual(states(), [true, true, false, false, false]);
  entered[0]?.leave();
  await settle();
  assert.deepEqual(states(), [true, true, true, true, false]);
  entered[2]?.leave();
  await settle();
  assert.deepEqual(states(), [true, true, true, true, true]);
});

Deno.test("Gate admits a size above all room alone", async () => {
  const gate = new Gate(100);
  const entered = [1, 1000, 1].map((size) => enter(gate, size));
  const states = () => entered.map(({ has }) => has);
  await settle();
  assert.deepEqual(states(), [true, false, false]);
  entered[0]?.leave();
  await settle();
  assert.deepEqual(states(), [true, true, false]);
  entered[1]?.leave();
  await settle();
  assert.deepEqual(states(), [true, true, true]);
});

Deno.test("Gate lets a canceled waiter go, and the next one in", async () => {
  const gate = new Gate(100);
  const canceled = new AbortController();
  const first = enter(gate, 60);
  const second = enter(gate, 60, canceled.signal);
  const third = enter(gate, 40);
  await settle();
  canceled.abort();
  await settle();
  assert.deepEqual([first.has, second.has, second.failure, third.has], [true, false, "canceled", true]);
  const late = enter(gate, 1, canceled.signal);
  await settle();
  assert.equal(late.failure, "canceled");
});

Deno.test("Gate lets so many wait at most, and enters without waiting only where nobody waits", async () => {
  const gate = new Gate(2);
  using _first = gate.tryEnter();
  const two = enter(gate, 2);
  await settle();
  assert.equal(gate.tryEnter(), undefined);
  await assert.rejects(gate.enter(NEVER, { maxWaiting: 1, full: "no" }), {
    code: "rate_limited",
    message: "no",
  });
  assert.equal(two.has, false);
});

Deno.test("Gate reports when all have left", async () => {
  let emptied = 0;
  const gate = new Gate(2, () => emptied += 1);
  for (let time = 1; time <= 3; time++) {
    const [one, two] = [gate.tryEnter(), await gate.enter(NEVER)];
    one?.[Symbol.dispose]();
    assert.equal(emptied, time - 1);
    two[Symbol.dispose]();
    assert.equal(emptied, time);
  }
});
