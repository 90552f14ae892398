import assert from "node:assert/strict";
import { eventsOf } from "./exchange.ts";

const read = (text: string, size: number) => {
  const bytes = new TextEncoder().encode(text);
  const count = Math.ceil(bytes.length / size);
  const chunks = Array.from({ length: count }, (_, index) => bytes.slice(index * size, (index + 1) * size));
  return Array.fromAsync(eventsOf(ReadableStream.from(chunks)));
};

Deno.test.each([
  { name: "one line each", text: "data: a\n\ndata: é\n\n", is: ["a", "é"] },
  { name: "several lines", text: "event: x\ndata: a\ndata:b\nid: 1\n\n", is: ["a\nb"] },
  { name: "all ends of lines", text: "data:a\r\ndata:b\r\n\r\ndata:c\r\rdata:d\n\n", is: ["a\nb", "c", "d"] },
  { name: "comments and blanks", text: ": hello\n\n\n\ndata: a\n\n", is: ["a"] },
  { name: "no last end", text: "data: a\n\ndata: b", is: ["a", "b"] },
  { name: "characters that only look like ends of lines", text: "data: a\u2028b\n\n", is: ["a\u2028b"] },
])("eventsOf() reads $name, however the bytes arrive", async ({ text, is }) => {
  for (const size of [1, 2, 5, 1000]) assert.deepEqual(await read(text, size), is);
});
