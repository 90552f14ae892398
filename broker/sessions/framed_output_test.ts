import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import fc from "fast-check";
import { FramedOutput } from "./shell_protocol.ts";

const FRAME = { begin: "__BRK_aa__", end: "__BRK_bb__" };

function cut(chunks: readonly (string | Uint8Array)[]) {
  const parts: Uint8Array[] = [];
  const framed = new FramedOutput(FRAME, (bytes) => parts.push(bytes.slice()));
  for (const chunk of chunks) framed.push(typeof chunk === "string" ? Buffer.from(chunk) : chunk);
  return {
    output: Buffer.concat(parts).toString("latin1"),
    ended: framed.ended,
    exitCode: framed.exitCode,
  };
}

Deno.test.each([
  { name: "output with its newline", text: "a\n", output: "a\n", code: "0" },
  { name: "output without a last newline", text: "a", output: "a", code: "3" },
  { name: "no output", text: "", output: "", code: "255" },
  { name: "output that holds the begin again", text: "__BRK_aa__:0\n", output: "__BRK_aa__:0\n", code: "0" },
  { name: "output that starts like the end", text: "__BRK_b", output: "__BRK_b", code: "0" },
])("FramedOutput gives $name", ({ text, output, code }) => {
  const stream = `__BRK_aa__:0\n${text}__BRK_bb__:${code}\n`;
  assert.deepEqual(cut([stream]), { output, ended: true, exitCode: Number(code) });
});

Deno.test("FramedOutput takes the line ends of a terminal", () => {
  const { output, exitCode } = cut(["$ __BRK_aa__:0\r\na\r\n__BRK_bb__:7\r\n"]);
  assert.deepEqual({ output, exitCode }, { output: "a\r\n", exitCode: 7 });
});

Deno.test("FramedOutput leaves out what came before the begin", () => {
  assert.deepEqual(cut(["old\n__BRK_bb__:0\n__BRK_aa__:0\nnew\n__BRK_bb__:1\n"]), {
    output: "new\n",
    ended: true,
    exitCode: 1,
  });
});

Deno.test("FramedOutput does not look at what comes after the end", () => {
  const { output, exitCode } = cut(["__BRK_aa__:0\na__BRK_bb__:0\nlate", "later"]);
  assert.deepEqual({ output, exitCode }, { output: "a", exitCode: 0 });
});

Deno.test.each([
  { name: "no number", field: ":x\n" },
  { name: "a number out of range", field: ":256\n" },
  { name: "four digits", field: ":1000\n" },
  { name: "nothing", field: "\n" },
])("FramedOutput ends without an exit code where the end has $name", ({ field }) => {
  const { ended, exitCode } = cut([`__BRK_aa__:0\n__BRK_bb__${field}`]);
  assert.deepEqual({ ended, exitCode }, { ended: true, exitCode: undefined });
});

Deno.test("FramedOutput takes no frame in what a shell traces", () => {
  const trace = (word: string) => `+ /usr/bin/printf '%s:%s\\n' '${word}' 0\n`;
  const stream = `${trace(FRAME.begin)}__BRK_aa__:0\na\n${trace(FRAME.end)}__BRK_bb__:1\n`;
  for (const chunks of [[stream], [...stream]]) {
    const { output, exitCode } = cut(chunks);
    assert.deepEqual({ output, exitCode }, { output: `a\n${trace(FRAME.end)}`, exitCode: 1 });
  }
});

Deno.test("FramedOutput has not ended before the end of its line", () => {
  for (const part of ["__BRK_bb", "__BRK_bb__", "__BRK_bb__:1", "__BRK_bb__:1\r"]) {
    assert.equal(cut([`__BRK_aa__:0\n${part}`]).ended, false);
  }
});

Deno.test("FramedOutput gives the same however the stream is cut, whatever bytes are in it", () => {
  const piece = fc.oneof(
    fc.constantFrom("__BRK_", "__BRK_aa__", "__BRK_aa__:0\n", "_", "\r\n", ":0"),
    fc.uint8Array({ maxLength: 5 }).map((bytes) => Buffer.from(bytes).toString("latin1")),
  );
  const text = fc.array(piece, { maxLength: 12 }).map((pieces) => pieces.join(""));
  fc.assert(
    fc.property(text, fc.nat({ max: 255 }), fc.infiniteStream(fc.nat({ max: 7 })), (body, code, sizes) => {
      const stream = Buffer.from(`stray__BRK_aa__:0\n${body}__BRK_bb__:${code}\nrest`, "latin1");
      const chunks: Uint8Array[] = [];
      for (let at = 0; at < stream.length;) {
        const size = 1 + (sizes.next().value ?? 0);
        chunks.push(stream.subarray(at, at + size));
        at += size;
      }
      assert.deepEqual(cut(chunks), { output: body, ended: true, exitCode: code });
    }),
  );
});
