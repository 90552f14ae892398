import assert from "node:assert/strict";
import fc from "fast-check";
import { plainBody } from "./plain_body.ts";

const { raw } = String;

/** A body that comes in pieces of so many bytes. */
async function pass(text: string, isEvents: boolean, size = 1e6): Promise<string> {
  const bytes = new TextEncoder().encode(text);
  const pieces = Array.from(
    { length: Math.ceil(bytes.length / size) },
    (_, index) => bytes.slice(index * size, (index + 1) * size),
  );
  return await new Response(ReadableStream.from(pieces).pipeThrough(plainBody(isEvents))).text();
}

Deno.test.each([
  { name: "a text without escapes", text: '{"é": [1]}\n', is: '{"é": [1]}\n' },
  { name: "a text that is not JSON", text: "<html>", is: "<html>" },
  { name: "escapes in values", text: raw`{"a": "\n\"b\":"}`, is: raw`{"a": "\n\"b\":"}` },
  { name: "an escaped key", text: raw`{ "\u0061" : "\n" }`, is: raw`{"a":"\n"}` },
])("plainBody() passes $name", async ({ text, is }) => {
  for (const size of [1, 2, 5, 1e6]) assert.equal(await pass(text, false, size), is);
});

Deno.test.each([
  { name: "events as they are", text: "event: a\ndata: {}\n\n: \\\r\ndata: [DONE]\r\n\r\n", is: undefined },
  { name: "escapes in values", text: raw`data: {"a": "\n"}` + "\n\n", is: undefined },
  { name: "an escaped key", text: raw`data: {"\u0061": "é\n"}` + "\n\n", is: raw`data:{"a":"é\n"}` + "\n\n" },
  { name: "ends of lines of all kinds", text: raw`data:{"\u0061":1}` + "\r\n\r", is: 'data:{"a":1}\r\n\r' },
  { name: "a last line without end", text: raw`data:{"\u0061":1}`, is: 'data:{"a":1}' },
  {
    name: "signs that only look like ends of lines",
    text: raw`data:{"\u0061":"` + '\u2028"}',
    is: 'data:{"a":"\u2028"}',
  },
])("plainBody() passes a stream with $name", async ({ text, is }) => {
  for (const size of [1, 2, 5, 1e6]) assert.equal(await pass(text, true, size), is ?? text);
});

Deno.test.each([
  { name: "a key that has to be escaped", text: raw`{"\\":1}` },
  { name: "JSON that is broken behind an escaped key", text: raw`{"\u0061":` },
])("plainBody() refuses $name", async ({ text }) => {
  await assert.rejects(pass(text, false), SyntaxError);
  await assert.rejects(pass(`data: ${text}\n\n`, true), SyntaxError);
});

Deno.test.each([
  { name: "an escaped key", text: raw`data: {"\u0061"` + "\ndata: :1}\n\n" },
  { name: "a key that has to be escaped", text: raw`data: {` + "\n" + raw`data: "\\"` + "\ndata: :1}\n\n" },
])("plainBody() refuses $name whose colon is on the next line", async ({ text }) => {
  await assert.rejects(pass(text, true), SyntaxError);
});

Deno.test("plainBody() leaves no escaped key in a stream, however its events are divided into lines", async () => {
  const tokens = fc.constantFrom(
    raw`"\u0061"`,
    raw`"\\"`,
    '"b"',
    ":",
    "1",
    ",",
    "{",
    "}",
    "\ndata:",
    "\ndata: ",
    " ",
  );
  await fc.assert(
    fc.asyncProperty(fc.array(tokens, { maxLength: 12 }), async (parts) => {
      const text = `data:{${parts.join("")}}\n\n`;
      const passed = await pass(text, true).catch((error) => {
        assert.ok(error instanceof SyntaxError);
        return "";
      });
      const json = passed.split("\n").map((line) => line.replace(/^data: ?/, "")).join("\n");
      assert.ok(!isJson(json) || !/"[^"]*\\[^"]*"\s*:/.test(json), json);
    }),
    { numRuns: 1000 },
  );
});

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
