import assert from "node:assert/strict";
import fc from "fast-check";
import { encodeKrl, type Krl, SerialSet, SshReader } from "./wire_format.ts";

const HEAD = { version: 1n, generatedAt: 1_700_000_000, comment: "gateway" };
const EMPTY: Krl = { ...HEAD, serials: new SerialSet(), keyIds: [] };

function decode(list: Uint8Array) {
  const reader = new SshReader(list);
  assert.equal(new TextDecoder().decode(reader.raw(8)), "SSHKRL\n\0");
  assert.equal(reader.u32(), 1);
  const head = { version: reader.u64(), generatedAt: Number(reader.u64()) };
  assert.deepEqual([reader.u64(), reader.text()], [0n, ""], "flags, reserved");
  const comment = reader.text();
  const serials: bigint[] = [];
  const keyIds: string[] = [];
  while (!reader.done) {
    assert.deepEqual([...reader.raw(1)], [1]);
    const section = reader.nested();
    assert.deepEqual([section.text(), section.text()], ["", ""], "any CA, reserved");
    while (!section.done) {
      const [type] = section.raw(1);
      const inside = section.nested();
      while (!inside.done) {
        if (type === 0x20) serials.push(inside.u64());
        else keyIds.push(inside.text());
      }
    }
  }
  return { ...head, comment, serials, keyIds };
}

Deno.test("encodeKrl() writes sorted serials and key ids, each once", () => {
  const list = encodeKrl({
    ...EMPTY,
    serials: SerialSet.of([2n ** 64n - 1n, 1n, 1n]),
    keyIds: ["b ä", "a", "a"],
  });
  assert.deepEqual(decode(list), { ...HEAD, serials: [1n, 2n ** 64n - 1n], keyIds: ["a", "b ä"] });
});

Deno.test("encodeKrl() of nothing has a head and no section: it is never empty, which sshd takes for no list", () => {
  const list = encodeKrl(EMPTY);
  assert.deepEqual(decode(list), { ...HEAD, serials: [], keyIds: [] });
  assert.equal(list.length, 8 + 4 + 8 + 8 + 8 + 4 + 4 + "gateway".length);
});

Deno.test("encodeKrl() keeps every serial and key id", () => {
  const sets = fc.record({
    version: fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
    serials: fc.uniqueArray(fc.bigInt({ min: 1n, max: 2n ** 64n - 1n })),
    keyIds: fc.uniqueArray(fc.string({ unit: "grapheme" })),
  });
  fc.assert(fc.property(sets, ({ version, serials, keyIds }) => {
    const decoded = decode(encodeKrl({ ...EMPTY, version, serials: SerialSet.of(serials), keyIds }));
    assert.equal(decoded.version, version);
    assert.deepEqual(decoded.serials, serials.toSorted((a, b) => a < b ? -1 : 1));
    assert.deepEqual(new Set(decoded.keyIds), new Set(keyIds));
  }));
});

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
