import assert from "node:assert/strict";
import fc from "fast-check";
import { encodeKrl, type Krl } from "./krl.ts";
import { SerialSet } from "./serial_set.ts";
import { SshReader } from "./wire_format.ts";

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
