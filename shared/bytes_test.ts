import assert from "node:assert/strict";
import fc from "fast-check";
import { collectBytes, concatBytes, writeAll, writeAllSync } from "./bytes.ts";

Deno.test("concatBytes() gives a copy in a buffer of its own", () => {
  const piece = Uint8Array.of(1, 2);
  const bytes = concatBytes([piece]);
  piece.fill(0);
  assert.deepEqual(bytes, Uint8Array.of(1, 2));
  assert.equal(bytes.buffer.byteLength, 2);
  assert.deepEqual(concatBytes([]), new Uint8Array());
});

Deno.test("collectBytes() gives all up to the bound, and ends the source beyond it", async () => {
  let isCancelled = false;
  let next = 0;
  const source = new ReadableStream<Uint8Array>({
    pull: (controller) => controller.enqueue(Uint8Array.of(++next)),
    cancel: () => void (isCancelled = true),
  });
  assert.equal(await collectBytes(source, 2), undefined);
  assert.ok(isCancelled);
  const three = async function* () {
    yield* [Uint8Array.of(1), Uint8Array.of(2, 3)];
  };
  assert.deepEqual(await collectBytes(three(), 3), Uint8Array.of(1, 2, 3));
  const endless = async function* () {
    for (;;) yield "é";
  };
  assert.equal(await collectBytes(endless(), 100), undefined);
});

Deno.test("writeAll() and writeAllSync() write to the last byte, however little is taken at a time", async () => {
  await fc.assert(fc.asyncProperty(fc.uint8Array(), fc.integer({ min: 1, max: 7 }), async (bytes, most) => {
    const written: number[] = [];
    const writeSync = (piece: Uint8Array) => {
      written.push(...piece.subarray(0, most));
      return Math.min(most, piece.length);
    };
    await writeAll({ write: (piece) => Promise.resolve(writeSync(piece)) }, bytes);
    writeAllSync({ writeSync }, bytes);
    assert.deepEqual(written, [...bytes, ...bytes]);
  }));
});
