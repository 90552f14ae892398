import assert from "node:assert/strict";
import fc from "fast-check";
import { wholeCharacter } from "@gateway/shared/testing";
import { encodeKrl, type Krl, SerialSet, SshReader, SshWriter } from "./wire_format.ts";
import { AppError } from "../errors.ts";

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

Deno.test("encodeKrl() writes sorted serials and key IDs without duplicates", () => {
  const serials = SerialSet.of([2n ** 64n - 1n, 1n, 1n]);
  const list = encodeKrl({ ...EMPTY, serials, keyIds: ["b ä", "a", "a"] });
  assert.deepEqual(decode(list), { ...HEAD, serials: [1n, 2n ** 64n - 1n], keyIds: ["a", "b ä"] });
});

Deno.test("encodeKrl() of no entries writes a header, because sshd treats an empty file as no list", () => {
  const list = encodeKrl(EMPTY);
  assert.deepEqual(decode(list), { ...HEAD, serials: [], keyIds: [] });
  assert.equal(list.length, 8 + 4 + 8 + 8 + 8 + 4 + 4 + "gateway".length);
});

Deno.test("encodeKrl() keeps every serial and key ID", () => {
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

Deno.test("a SerialSet has the contents of a Map after any additions and removals", () => {
  // A few values on both sides of 32 bits, so that equal and adjacent serials are frequent.
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

Deno.test("a SerialSet rejects serial 0 together with all serials added in the same call", () => {
  const set = SerialSet.of([1n]);
  assert.throws(() => set.add(new Map([[5n, 1], [0n, 1]])), RangeError);
  assert.deepEqual(contentOf(set), [1n]);
});

const refused = (message: RegExp) => ({ name: "AppError", code: "invalid_request", message });
const hex = (text: string) => new SshReader(Uint8Array.fromHex(text));

// The examples of RFC 4251 section 5.
Deno.test.each([
  { name: "zero", magnitude: "", wire: "00000000" },
  { name: "9a378f9b2e332a7", magnitude: "09a378f9b2e332a7", wire: "0000000809a378f9b2e332a7" },
  { name: "80, which needs a leading zero", magnitude: "80", wire: "000000020080" },
  { name: "a magnitude with leading zeros", magnitude: "0000007f", wire: "000000017f", read: "7f" },
])("an mpint is encoded and decoded: $name", ({ magnitude, wire, ...row }) => {
  assert.equal(new SshWriter().mpint(Uint8Array.fromHex(magnitude)).bytes().toHex(), wire);
  const reader = hex(wire);
  assert.equal(reader.mpint().toHex(), "read" in row ? row.read : magnitude);
  assert.ok(reader.done);
});

Deno.test("integers are big-endian", () => {
  const bytes = new SshWriter().u32(0x29b7f4aa).u64(0x0102030405060708n).bytes();
  assert.equal(bytes.toHex(), "29b7f4aa0102030405060708");
});

Deno.test.each([
  ["an integer cut short", "000000", (r: SshReader) => r.u32(), /truncated/],
  ["a long integer cut short", "00000000000000", (r: SshReader) => r.u64(), /truncated/],
  ["a string cut short", "0000000261", (r: SshReader) => r.string(), /truncated/],
  ["a string of 4 GiB", "ffffffff61", (r: SshReader) => r.string(), /truncated/],
  ["a text that is not UTF-8", "00000001ff", (r: SshReader) => r.text(), /UTF-8/],
  ["an encoded surrogate", "00000003eda080", (r: SshReader) => r.text(), /UTF-8/],
  ["a negative mpint", "0000000180", (r: SshReader) => r.mpint(), /negative/],
  ["an mpint of one zero", "0000000100", (r: SshReader) => r.mpint(), /zeros/],
  ["an mpint with a needless zero", "00000002007f", (r: SshReader) => r.mpint(), /zeros/],
  ["bytes that are left", "00", (r: SshReader) => r.end(), /1 bytes too many/],
])("SshReader rejects %s", (_name, wire, read, message) => {
  assert.throws(() => read(hex(wire)), refused(message));
});

Deno.test("a failed read does not advance the reader", () => {
  const reader = hex("00000001");
  assert.throws(() => reader.u64(), AppError);
  assert.equal(reader.u32(), 1);
});

Deno.test("a byte order mark is kept as part of a text", () => {
  const reader = new SshReader(new SshWriter().text("\ufeffa").bytes());
  assert.equal(reader.text(), "\ufeffa");
});

Deno.test("SshReader reads a view in the middle of a buffer", () => {
  const buffer = Uint8Array.fromHex("ffff0000000161ffff");
  const reader = new SshReader(buffer.subarray(2, 7));
  assert.equal(reader.text(), "a");
  reader.end();
});

Deno.test.each([
  { name: "a negative number", write: (w: SshWriter) => w.u32(-1) },
  { name: "a fraction", write: (w: SshWriter) => w.u32(0.5) },
  { name: "33 bits", write: (w: SshWriter) => w.u32(2 ** 32) },
  { name: "a negative long number", write: (w: SshWriter) => w.u64(-1n) },
  { name: "65 bits", write: (w: SshWriter) => w.u64(2n ** 64n) },
])("SshWriter rejects $name", ({ write }) => {
  assert.throws(() => write(new SshWriter()), RangeError);
});

Deno.test("reading returns the values that were written", () => {
  fc.assert(
    fc.property(
      fc.nat(0xffff_ffff),
      fc.bigInt(0n, 2n ** 64n - 1n),
      fc.uint8Array(),
      fc.string({ unit: wholeCharacter(fc) }),
      (u32, u64, bytes, text) => {
        const reader = new SshReader(new SshWriter().u32(u32).u64(u64).string(bytes).text(text).bytes());
        assert.deepEqual([reader.u32(), reader.u64()], [u32, u64]);
        assert.deepEqual(new Uint8Array(reader.string()), bytes);
        assert.equal(reader.text(), text);
        reader.end();
      },
    ),
  );
});

Deno.test("later writes do not change what SshWriter.bytes() returned", () => {
  for (const capacity of [0, 3, 4, 5, 8]) {
    const writer = new SshWriter(capacity).u32(1);
    const given = writer.bytes();
    writer.u32(2).text("x");
    assert.equal(given.toHex(), "00000001", `capacity ${capacity}`);
    assert.equal(writer.bytes().toHex(), "00000001000000020000000178", `capacity ${capacity}`);
  }
});
