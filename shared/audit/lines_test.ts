import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import fc from "fast-check";
import { splitLines } from "./lines.ts";

async function split(chunks: readonly string[], maxBytes = 100) {
  const lines: [string, boolean, boolean][] = [];
  for await (
    const { bytes, terminated, tooLong } of splitLines(chunks.map((c) => Buffer.from(c)), maxBytes)
  ) {
    lines.push([Buffer.from(bytes).toString(), terminated, tooLong]);
  }
  return lines;
}

Deno.test.each([
  { name: "gives nothing for nothing", chunks: [], lines: [] },
  { name: "splits at LF", chunks: ["a\nb\n"], lines: [["a", true, false], ["b", true, false]] },
  {
    name: "tells a last line without newline",
    chunks: ["a\nb"],
    lines: [["a", true, false], ["b", false, false]],
  },
  {
    name: "joins chunks",
    chunks: ["a", "b\nc", "", "d\n"],
    lines: [["ab", true, false], ["cd", true, false]],
  },
  { name: "keeps CR", chunks: ["a\r\n"], lines: [["a\r", true, false]] },
  {
    name: "keeps blank lines",
    chunks: ["\n\na\n"],
    lines: [["", true, false], ["", true, false], ["a", true, false]],
  },
  { name: "takes a line of full length", chunks: ["aaaa\n"], lines: [["aaaa", true, false]], max: 4 },
  {
    name: "cuts a longer line",
    chunks: ["aaaab\nc\n"],
    lines: [["aaaa", true, true], ["c", true, false]],
    max: 4,
  },
  {
    name: "cuts a longer line across chunks",
    chunks: ["aaa", "abb", "b\nc"],
    lines: [["aaaa", true, true], ["c", false, false]],
    max: 4,
  },
])("splitLines() $name", async ({ chunks, lines, max }) => {
  assert.deepEqual(await split(chunks, max), lines);
});

Deno.test("splitLines() doesn't depend on how the bytes are cut", async () => {
  const pieces = fc.array(fc.string({ unit: fc.constantFrom("a", "b", "\n"), maxLength: 8 }));
  await fc.assert(fc.asyncProperty(pieces, async (chunks) => {
    assert.deepEqual(await split(chunks, 3), await split([chunks.join("")], 3));
  }));
});
