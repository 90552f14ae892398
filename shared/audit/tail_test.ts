import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { type ChainHead, createAuditKey, GENESIS, hashLine, seal } from "./record.ts";
import { inspectTail, splitLines } from "./tail.ts";
import fc from "fast-check";

const KEY = createAuditKey(new Uint8Array(32).fill(3));
const OTHER = createAuditKey(new Uint8Array(32).fill(4));

function chain(count: number, key = KEY): readonly string[] {
  const lines: string[] = [];
  let head: ChainHead = GENESIS;
  for (let index = 0; index < count; index++) {
    const { line, next } = seal({ body: `{"outcome":"r${index}"`, ext: '{"request_id":"r-1"}' }, head, key);
    lines.push(line);
    head = next;
  }
  return lines;
}

const [A, B, C] = chain(3) as [string, string, string];
const inspect = (text: string, whole = true) =>
  inspectTail(Buffer.from(text, "latin1"), whole, KEY.publicKey);
const good = (seq: number, line: string, terminated = true, tornBytes = 0) => ({
  kind: "good",
  head: { seq, hash: hashLine(line) },
  terminated,
  tornBytes,
});

Deno.test.each([
  { name: "an empty file", text: "", state: { kind: "empty", tornBytes: 0 } },
  { name: "blank lines only", text: "\n\n", state: { kind: "empty", tornBytes: 0 } },
  { name: "one record", text: `${A}\n`, state: good(1, A) },
  { name: "several records (L1)", text: `${A}\n${B}\n${C}\n`, state: good(3, C) },
  { name: "a blank line after the last record", text: `${A}\n${B}\n\n`, state: good(2, B) },
  { name: "a whole record without newline", text: `${A}\n${B}`, state: good(2, B, false) },
  { name: "a first record without newline", text: A, state: good(1, A, false) },
  { name: "a torn record (L10)", text: `${A}\n${B.slice(0, 50)}`, state: good(1, A, true, 50) },
  {
    name: "a record torn before its last byte",
    text: `${A}\n${B.slice(0, -1)}`,
    state: good(1, A, true, B.length - 1),
  },
  { name: "one byte of a record", text: `${A}\n{`, state: good(1, A, true, 1) },
  { name: "a torn first record", text: A.slice(0, 50), state: { kind: "empty", tornBytes: 50 } },
  { name: "zeros where a record was to be", text: `${A}\n\0\0\0\0`, state: good(1, A, true, 4) },
  { name: "a character torn in its middle", text: `${A}\n{"outcome":"\xc3`, state: good(1, A, true, 13) },
])("inspectTail() accepts $name", ({ text, state }) => {
  assert.deepEqual(inspect(text), state);
});

Deno.test("inspectTail() finds the last good record wherever the one after it was torn (L10)", () => {
  for (let kept = 1; kept < B.length; kept++) {
    assert.deepEqual(inspect(`${A}\n${B.slice(0, kept)}`), good(1, A, true, kept));
  }
});

const [FOREIGN] = chain(1, OTHER) as [string];
Deno.test.each([
  { name: "a malformed line with its newline", text: `${A}\n${B.slice(0, 50)}\n`, reason: /not a record/ },
  { name: "JSON that is not a record", text: `${A}\n{}`, reason: /not a record/ },
  { name: "a record of another key", text: `${FOREIGN}\n`, reason: /not signed by this audit key/ },
  { name: "a record of another key without newline", text: FOREIGN, reason: /not signed by this audit key/ },
  { name: "an altered record", text: `${A.replace("r0", "r9")}\n`, reason: /not signed by this audit key/ },
  { name: "a record with another before it", text: `${A}\n${C}\n`, reason: /not linked/ },
  {
    name: "a record after an altered one",
    text: `${A}\n${B.replace("r1", "r9")}\n${C}\n`,
    reason: /not linked/,
  },
  { name: "a bad record before a torn one", text: `${A}\nx\n${C.slice(0, 9)}`, reason: /not a record/ },
  { name: "a line over the cap", text: `${"x".repeat(262_145)}\n`, reason: /longer than 262144 bytes/ },
  {
    name: "a torn line over the cap",
    text: `${A}\n${"x".repeat(262_145)}`,
    reason: /longer than 262144 bytes/,
  },
])("inspectTail() refuses $name", ({ text, reason }) => {
  const state = inspect(text);
  assert.ok(state.kind === "broken");
  assert.match(state.reason, reason);
});

Deno.test("inspectTail() judges by the last record when the window cuts the one before", () => {
  assert.deepEqual(inspect(`${A.slice(40)}\n${B}\n`, false), good(2, B));
  assert.equal(inspect(`${A.slice(40)}\n${C}\n`, false).kind, "good");
});

Deno.test("inspectTail() refuses a window that shows no whole line", () => {
  assert.equal(inspect(`${A.slice(40)}\n`, false).kind, "broken");
  assert.equal(inspect("\n".repeat(9), false).kind, "broken");
});

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
