import assert from "node:assert/strict";
import fc from "fast-check";
import { jsonEnd, jsonLength, jsonStart } from "./stream_view.ts";

const texts = fc.string({ unit: "binary", maxLength: 60 });
const sizeOf = (text: string) => new TextEncoder().encode(JSON.stringify(text)).length - 2;

Deno.test("jsonLength() is what the text takes in JSON", () => {
  fc.assert(fc.property(texts, (text) => assert.equal(jsonLength(text), sizeOf(text))));
  const every = String.fromCharCode(...Array.from({ length: 0xd800 }, (_, code) => code));
  assert.equal(jsonLength(every), sizeOf(every));
});

Deno.test("jsonStart() and jsonEnd() fit, cut no character in two, and leave out no more than they must", () => {
  fc.assert(fc.property(texts, fc.nat(80), (text, max) => {
    const characters = [...text];
    const start = [...jsonStart(text, max)];
    const end = [...jsonEnd(text, max)];
    assert.deepEqual(start, characters.slice(0, start.length));
    assert.deepEqual(end, characters.slice(characters.length - end.length));
    assert.ok(sizeOf(start.join("")) <= max && sizeOf(end.join("")) <= max);
    if (start.length < characters.length) {
      assert.ok(sizeOf(characters.slice(0, start.length + 1).join("")) > max);
      assert.ok(sizeOf(characters.slice(-end.length - 1).join("")) > max);
    }
  }));
});
