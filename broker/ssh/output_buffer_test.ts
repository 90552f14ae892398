import assert from "node:assert/strict";
import { OutputBuffer } from "./output_buffer.ts";

const bytes = (text: string) => new TextEncoder().encode(text);
const mark = (limit: number) => `\n[output truncated: limit of ${limit} bytes exceeded]\n`;

const rows = [
  { name: "nothing", limit: 4, chunks: [], text: "" },
  { name: "less than the limit", limit: 4, chunks: ["a", "", "b"], text: "ab" },
  { name: "exactly the limit", limit: 4, chunks: ["ab", "cd"], text: "abcd" },
  { name: "exactly the limit and an empty chunk", limit: 4, chunks: ["abcd", ""], text: "abcd" },
  { name: "one byte too many (K19, K20)", limit: 4, chunks: ["ab", "cde"], text: `abcd${mark(4)}` },
  { name: "chunks after the limit", limit: 4, chunks: ["abcd", "e", "f"], text: `abcd${mark(4)}` },
  { name: "a last line without end (K21)", limit: 9, chunks: ["one\n", "two"], text: "one\ntwo" },
  { name: "any output with a limit of 0", limit: 0, chunks: ["a"], text: mark(0) },
] as const;

Deno.test.each(rows)("OutputBuffer keeps $name", ({ limit, chunks, text }) => {
  const buffer = new OutputBuffer(limit);
  for (const chunk of chunks) buffer.write(bytes(chunk));
  assert.equal(new TextDecoder().decode(buffer.bytes()), text);
  assert.equal(buffer.truncated, text.endsWith(mark(limit)));
});

Deno.test("OutputBuffer writes the limit of the specification in the mark", () => {
  const buffer = new OutputBuffer(10_485_760);
  buffer.write(new Uint8Array(10_485_761));
  assert.match(
    new TextDecoder().decode(buffer.bytes().subarray(10_485_760)),
    /^\n\[output truncated: limit of 10485760 bytes exceeded\]\n$/,
  );
});

Deno.test("OutputBuffer does not see later changes of a chunk", () => {
  const buffer = new OutputBuffer(10);
  const chunk = bytes("abc");
  buffer.write(chunk);
  chunk.fill(0);
  assert.equal(new TextDecoder().decode(buffer.bytes()), "abc");
});

Deno.test("OutputBuffer grows over many small chunks", () => {
  const buffer = new OutputBuffer(100_000);
  for (let count = 0; count < 100_000; count += 1) buffer.write(Uint8Array.of(count % 251));
  const kept = buffer.bytes();
  assert.equal(kept.length, 100_000);
  assert.ok(kept.every((byte, index) => byte === index % 251));
});
