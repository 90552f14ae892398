import assert from "node:assert/strict";
import fc from "fast-check";
import { SerialSet } from "./serial_set.ts";

const LARGEST = 2n ** 64n - 1n;

function contentOf({ bytes }: SerialSet): readonly bigint[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  return Array.from({ length: bytes.length / 8 }, (_, index) => view.getBigUint64(8 * index));
}

Deno.test("a SerialSet is what a Map is, whatever is added and forgotten", () => {
  // Few values, so that many meet; on both sides of what 32 bits hold.
  const serial = fc.oneof(
    fc.bigInt({ min: 1n, max: 20n }),
    fc.bigInt({ min: 2n ** 32n - 5n, max: 2n ** 32n + 5n }),
    fc.bigInt({ min: LARGEST - 5n, max: LARGEST }),
  );
  const step = fc.oneof(
    fc.record({ serials: fc.array(fc.tuple(serial, fc.integer({ min: 0, max: 9 })), { maxLength: 40 }) }),
    fc.record({ now: fc.integer({ min: 0, max: 9 }) }),
  );
  fc.assert(fc.property(fc.array(step), (steps) => {
    const [set, map] = [new SerialSet(), new Map<bigint, number>()];
    for (const step of steps) {
      const before = map.size;
      if ("now" in step) {
        for (const [serial, until] of map) if (until <= step.now) map.delete(serial);
        assert.equal(set.forget(step.now), before - map.size);
      } else {
        const added = new Map(step.serials);
        for (const [serial, until] of added) if (!map.has(serial)) map.set(serial, until);
        assert.equal(set.add(added), map.size - before);
      }
      assert.equal(set.size, map.size);
      assert.deepEqual(contentOf(set), [...map.keys()].sort((a, b) => a < b ? -1 : 1));
    }
    for (const serial of [0n, 1n, 2n ** 32n, LARGEST]) assert.equal(set.has(serial), map.has(serial));
  }));
});

Deno.test("a SerialSet refuses the serial 0 and takes nothing of what came with it", () => {
  const set = SerialSet.of([1n]);
  assert.throws(() => set.add(new Map([[5n, 1], [0n, 1]])), RangeError);
  assert.deepEqual(contentOf(set), [1n]);
});
