import assert from "node:assert/strict";
import * as fc from "fast-check";
import { AgeQueue, type Born } from "./age_queue.ts";

const bornAt = (item: Born) => item.bornAt;

Deno.test("AgeQueue: gives those born before a time, the oldest first, each once", () => {
  const queue = new AgeQueue<Born>();
  for (const time of [1, 2, 4, 3, 5]) queue.add({ bornAt: time });
  assert.deepEqual([...queue.takeBornBefore(4)].map(bornAt), [1, 2, 3]);
  assert.deepEqual([...queue.takeBornBefore(4)], []);
  queue.add({ bornAt: 2 });
  assert.deepEqual([...queue.takeBornBefore(Infinity)].map(bornAt), [2, 4, 5]);
});

Deno.test("AgeQueue: whatever is added and taken, it gives what a sorted list would", () => {
  const steps = fc.array(fc.record({ adds: fc.array(fc.nat(100)), before: fc.nat(100) }), { maxLength: 30 });
  fc.assert(fc.property(steps, (all) => {
    const queue = new AgeQueue<Born>();
    let rest: number[] = [];
    for (const { adds, before } of all) {
      for (const time of adds) queue.add({ bornAt: time });
      rest = [...rest, ...adds].sort((a, b) => a - b);
      const taken = [...queue.takeBornBefore(before)].map(bornAt);
      assert.deepEqual(taken, rest.filter((time) => time < before));
      rest = rest.slice(taken.length);
    }
  }));
});
