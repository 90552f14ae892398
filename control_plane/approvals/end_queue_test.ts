import assert from "node:assert/strict";
import * as fc from "fast-check";
import { EndQueue } from "./shelf.ts";

interface Item {
  readonly end: number;
}

const endOf = ({ end }: Item) => end;

Deno.test("EndQueue: gives those that ended before a time, the first of them first, each once", () => {
  const queue = new EndQueue(endOf);
  for (const end of [1, 2, 4, 3, 5]) queue.add({ end });
  assert.deepEqual([...queue.takeEndedBefore(4)].map(endOf), [1, 2, 3]);
  assert.deepEqual([...queue.takeEndedBefore(4)], []);
  queue.add({ end: 2 });
  assert.deepEqual([...queue.takeEndedBefore(Infinity)].map(endOf), [2, 4, 5]);
});

Deno.test("EndQueue: whatever is added and taken, it gives what a sorted list would", () => {
  const steps = fc.array(fc.record({ adds: fc.array(fc.nat(100)), before: fc.nat(100) }), { maxLength: 30 });
  fc.assert(fc.property(steps, (all) => {
    const queue = new EndQueue(endOf);
    let rest: number[] = [];
    for (const { adds, before } of all) {
      for (const end of adds) queue.add({ end });
      rest = [...rest, ...adds].sort((a, b) => a - b);
      const taken = [...queue.takeEndedBefore(before)].map(endOf);
      assert.deepEqual(taken, rest.filter((end) => end < before));
      rest = rest.slice(taken.length);
    }
  }));
});
