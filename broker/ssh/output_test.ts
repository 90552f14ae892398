import assert from "node:assert/strict";
import fc from "fast-check";
import { keptBytes, markedHead, missingBytes, type Output, OutputBuffer, outputText } from "./output.ts";
import { exitCodeOf } from "./run_command.ts";

const bytes = (text: string) => new TextEncoder().encode(text);
const mark = (limit: number) => `\n[output truncated: limit of ${limit} bytes exceeded]\n`;

function keep(headBytes: number, tailBytes: number, chunks: readonly Uint8Array[]): Output {
  const buffer = new OutputBuffer({ headBytes, tailBytes });
  for (const chunk of chunks) buffer.write(chunk);
  return buffer.output();
}

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

Deno.test.each(rows)(
  "OutputBuffer keeps the start and marks the rest as truncated: $name",
  ({ limit, chunks, text }) => {
    const output = keep(limit, 0, chunks.map(bytes));
    assert.equal(new TextDecoder().decode(markedHead(output)), text);
  },
);

Deno.test("markedHead() reports the configured limit in the truncation mark", () => {
  const output = keep(10_485_760, 0, [new Uint8Array(10_485_761)]);
  assert.match(
    new TextDecoder().decode(markedHead(output).subarray(10_485_760)),
    /^\n\[output truncated: limit of 10485760 bytes exceeded\]\n$/,
  );
});

Deno.test("OutputBuffer keeps the start and the end of any stream for any chunks (property)", () => {
  const chunks = fc.array(fc.uint8Array({ maxLength: 12 }), { maxLength: 12 });
  fc.assert(fc.property(chunks, fc.nat(9), fc.nat(9), (chunks, headBytes, tailBytes) => {
    const all = chunks.flatMap((chunk) => [...chunk]);
    const output = keep(headBytes, tailBytes, chunks);
    const rest = all.slice(headBytes);
    assert.deepEqual([...output.head], all.slice(0, headBytes));
    assert.deepEqual([...output.tail], rest.slice(Math.max(0, rest.length - tailBytes)));
    assert.equal(output.totalBytes, all.length);
    assert.equal(missingBytes(output), Math.max(0, all.length - headBytes - tailBytes));
    if (missingBytes(output) === 0) assert.deepEqual([...keptBytes(output)], all);
  }));
});

Deno.test("OutputBuffer copies each chunk and ignores later changes of it", () => {
  const buffer = new OutputBuffer({ headBytes: 2, tailBytes: 2 });
  const chunk = bytes("abcd");
  buffer.write(chunk);
  chunk.fill(0);
  assert.equal(new TextDecoder().decode(keptBytes(buffer.output())), "abcd");
});

Deno.test("OutputBuffer keeps all bytes of many small chunks up to its limit", () => {
  for (const limits of [{ headBytes: 100_000, tailBytes: 0 }, { headBytes: 0, tailBytes: 100_000 }]) {
    const buffer = new OutputBuffer(limits);
    for (let count = 0; count < 100_000; count += 1) buffer.write(Uint8Array.of(count % 251));
    const kept = keptBytes(buffer.output());
    assert.equal(kept.length, 100_000);
    assert.ok(kept.every((byte, index) => byte === index % 251));
  }
});

const FFFD = "\ufffd";

Deno.test.each([
  ["an empty output", [], ""],
  ["ASCII", [0x61, 0x0a], "a\n"],
  ["two bytes", [0xc3, 0xa9], "é"],
  ["three bytes", [0xe2, 0x82, 0xac], "€"],
  ["four bytes", [0xf0, 0x9f, 0x92, 0xa9], "💩"],
  ["a byte order mark, kept", [0xef, 0xbb, 0xbf, 0x61], "\ufeffa"],
  ["NUL, kept", [0x00], "\0"],
  ["the highest code point", [0xf4, 0x8f, 0xbf, 0xbf], "\u{10ffff}"],
  ["a lone tail byte", [0x61, 0x80, 0x62], `a${FFFD}b`],
  ["a cut sequence, one mark a byte", [0xe2, 0x82], FFFD + FFFD],
  ["a cut sequence before text", [0xf0, 0x9f, 0x92, 0x61], FFFD.repeat(3) + "a"],
  ["an overlong slash", [0xc0, 0xaf], FFFD + FFFD],
  ["an overlong three-byte form", [0xe0, 0x80, 0xaf], FFFD.repeat(3)],
  ["a surrogate", [0xed, 0xa0, 0x80], FFFD.repeat(3)],
  ["a code point that is too high", [0xf4, 0x90, 0x80, 0x80], FFFD.repeat(4)],
  ["bytes that never occur", [0xff, 0xfe, 0xf5], FFFD.repeat(3)],
  ["valid text between broken bytes", [0xff, 0xc3, 0xa9, 0xff, 0x61], `${FFFD}é${FFFD}a`],
])("outputText() keeps or repairs %s", (_name, bytes, text) => {
  assert.equal(outputText(Uint8Array.from(bytes)), text);
});

Deno.test("outputText() returns one replacement character for each of a million invalid bytes", () => {
  assert.equal(outputText(new Uint8Array(1_000_000).fill(0xff)).length, 1_000_000);
});

Deno.test("outputText() returns the same as TextDecoder for every valid code point", () => {
  let text = "";
  for (let code = 0; code <= 0x10ffff; code += code < 0x10000 ? 1 : 257) {
    if (code < 0xd800 || code > 0xdfff) text += String.fromCodePoint(code);
  }
  assert.equal(outputText(new TextEncoder().encode(text)), text);
});

Deno.test.each([0, 1, 126, 255, 4_294_967_295].map((status) => ({ status })))(
  "exitCodeOf() returns the status $status unchanged",
  ({ status }) => assert.equal(exitCodeOf(status), status),
);

Deno.test.each([
  { name: "HUP", code: 129 },
  { name: "INT", code: 130 },
  { name: "QUIT", code: 131 },
  { name: "ILL", code: 132 },
  { name: "ABRT", code: 134 },
  { name: "FPE", code: 136 },
  { name: "KILL", code: 137 },
  { name: "SEGV", code: 139 },
  { name: "PIPE", code: 141 },
  { name: "ALRM", code: 142 },
  { name: "TERM", code: 143 },
  { name: "USR1", code: 128 },
  { name: "sig@example.com", code: 128 },
  { name: "toString", code: 128 },
  { name: "", code: 128 },
])("exitCodeOf() returns $code for the signal $name", ({ name, code }) => {
  assert.equal(exitCodeOf(null, `SIG${name}`), code);
});
