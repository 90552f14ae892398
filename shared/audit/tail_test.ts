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
  ["an empty file", "", { kind: "empty", tornBytes: 0 }],
  ["blank lines only", "\n\n", { kind: "empty", tornBytes: 0 }],
  ["one record", `${A}\n`, good(1, A)],
  ["several records (L1)", `${A}\n${B}\n${C}\n`, good(3, C)],
  ["a blank line after the last record", `${A}\n${B}\n\n`, good(2, B)],
  ["a whole record without newline", `${A}\n${B}`, good(2, B, false)],
  ["a first record without newline", A, good(1, A, false)],
  ["a torn record (L10)", `${A}\n${B.slice(0, 50)}`, good(1, A, true, 50)],
  ["a record torn before its last byte", `${A}\n${B.slice(0, -1)}`, good(1, A, true, B.length - 1)],
  ["one byte of a record", `${A}\n{`, good(1, A, true, 1)],
  ["a torn first record", A.slice(0, 50), { kind: "empty", tornBytes: 50 }],
  ["zeros where a record was to be", `${A}\n\0\0\0\0`, good(1, A, true, 4)],
  ["a character torn in its middle", `${A}\n{"outcome":"\xc3`, good(1, A, true, 13)],
])("inspectTail() accepts %s", (_name, text, state) => {
  assert.deepEqual(inspect(text), state);
});

Deno.test("inspectTail() finds the last good record wherever the one after it was torn (L10)", () => {
  for (let kept = 1; kept < B.length; kept++) {
    assert.deepEqual(inspect(`${A}\n${B.slice(0, kept)}`), good(1, A, true, kept));
  }
});

const [FOREIGN] = chain(1, OTHER) as [string];
Deno.test.each([
  ["a malformed line with its newline", `${A}\n${B.slice(0, 50)}\n`, /not a record/],
  ["JSON that is not a record", `${A}\n{}`, /not a record/],
  ["a record of another key", `${FOREIGN}\n`, /not signed by this audit key/],
  ["a record of another key without newline", FOREIGN, /not signed by this audit key/],
  ["an altered record", `${A.replace("r0", "r9")}\n`, /not signed by this audit key/],
  ["a record with another before it", `${A}\n${C}\n`, /not linked/],
  ["a record after an altered one", `${A}\n${B.replace("r1", "r9")}\n${C}\n`, /not linked/],
  ["a bad record before a torn one", `${A}\nx\n${C.slice(0, 9)}`, /not a record/],
  ["a line over the cap", `${"x".repeat(262_145)}\n`, /longer than 262144 bytes/],
  ["a torn line over the cap", `${A}\n${"x".repeat(262_145)}`, /longer than 262144 bytes/],
])("inspectTail() refuses %s", (_name, text, reason) => {
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
