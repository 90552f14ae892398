import assert from "node:assert/strict";
import type { Steps } from "@gateway/shared/clock";
import { DecisionTurns } from "./decision_turns.ts";

/** Turns on a clock that only steps and pauses move, and what happened on it. */
function start() {
  let time = 0;
  const events: string[] = [];
  const sleep = async (ms: number) => {
    events.push("pause");
    await Promise.resolve();
    time += ms;
  };
  const turns = new DecisionTurns({ clock: { now: () => time, sleep } });
  function* take(name: string, steps: number): Steps<string> {
    for (let step = 0; step < steps; step++) {
      time += 1;
      yield;
    }
    return name;
  }
  const run = async (caller: string, name: string, steps: number) => {
    events.push(await turns.run(caller, take(name, steps)));
  };
  return { turns, events, run };
}

Deno.test("DecisionTurns.run() serves callers in turn, and each in the order of its requests", async () => {
  const { events, run } = start();
  await Promise.all([run("a", "a1", 3), run("a", "a2", 3), run("a", "a3", 3), run("b", "b1", 1)]);
  assert.deepEqual(events.filter((event) => event !== "pause"), ["b1", "a1", "a2", "a3"]);
});

Deno.test("DecisionTurns.run() pauses after each millisecond of a decision", async () => {
  const { events, run } = start();
  await run("a", "a1", 4);
  assert.deepEqual(events, ["pause", "pause", "pause", "pause", "a1"]);
});

Deno.test("DecisionTurns.run() decides short ones without a pause", async () => {
  const { events, run } = start();
  await Promise.all([run("a", "a1", 0), run("b", "b1", 0)]);
  assert.deepEqual(events, ["a1", "b1"]);
});

Deno.test("DecisionTurns.run() rejects with the error of a decision, and serves the others", async () => {
  const { events, run, turns } = start();
  // deno-lint-ignore require-yield
  function* fail(): Steps<never> {
    throw new RangeError("broken");
  }
  await Promise.all([assert.rejects(turns.run("a", fail()), RangeError), run("a", "a2", 1)]);
  assert.deepEqual(events, ["pause", "a2"]);
});
