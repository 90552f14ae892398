import assert from "node:assert/strict";
import { escapeKey } from "@gateway/shared/testing";
import { LinePipe } from "../testing/line_pipe.ts";
import { StdioTransport } from "./mcp_stdio.ts";

function connect() {
  const pipe = new LinePipe();
  const transport = new StdioTransport(pipe.streams);
  const received: unknown[] = [];
  const errors: string[] = [];
  transport.onmessage = (message) => received.push(message);
  transport.onerror = (error) => errors.push(error.message);
  return { pipe, transport, received, errors };
}

const ping = (id: number) => ({ jsonrpc: "2.0", id, method: "ping" } as const);

Deno.test("StdioTransport reads messages however the bytes are cut", async () => {
  const { pipe, transport, received } = connect();
  await transport.start();
  const bytes = new TextEncoder().encode(
    `${JSON.stringify({ ...ping(1), method: "é" })}\r\n\n${JSON.stringify(ping(2))}\n`,
  );
  for (const byte of bytes) await pipe.sendBytes(Uint8Array.of(byte));
  await pipe.end();
  await transport.ended;
  assert.deepEqual(received, [{ ...ping(1), method: "é" }, ping(2)]);
});

Deno.test("StdioTransport writes 64-bit integers exactly, one message a line", async () => {
  const { pipe, transport } = connect();
  await transport.send({ jsonrpc: "2.0", id: 1, result: { serial: 18446744073709551615n, text: "a\nb" } });
  assert.equal(
    await pipe.line(),
    '{"jsonrpc":"2.0","id":1,"result":{"serial":18446744073709551615,"text":"a\\nb"}}',
  );
  await transport.close();
});

Deno.test.each([
  { name: "text", line: "hello", error: { code: -32700, message: "Parse error" } },
  { name: "broken JSON", line: '{"jsonrpc":"2.0",', error: { code: -32700, message: "Parse error" } },
  { name: "another object", line: '{"id":1}', error: { code: -32600, message: "Invalid Request" } },
  { name: "a batch", line: "[]", error: { code: -32600, message: "Invalid Request" } },
  {
    name: "an id of 64 bits",
    line: '{"jsonrpc":"2.0","id":18446744073709551615,"method":"ping"}',
    error: { code: -32600, message: "Invalid Request" },
  },
])("StdioTransport answers $name with an error and reads the next", async ({ line, error }) => {
  const { pipe, transport, received, errors } = connect();
  await transport.start();
  await pipe.send(line);
  assert.deepEqual(JSON.parse(await pipe.line()), { jsonrpc: "2.0", id: null, error });
  await pipe.send(JSON.stringify(ping(2)));
  await pipe.end();
  await transport.ended;
  assert.deepEqual(received, [ping(2)]);
  assert.equal(errors.length, 1);
});

Deno.test("StdioTransport reads what a line says, whatever was read before", async () => {
  const { pipe, transport, received } = connect();
  await transport.start();
  const message = { jsonrpc: "2.0", method: "note", params: { server: "web01", command: "uptime" } };
  const { before, text } = escapeKey(JSON.stringify(message), "command");
  await pipe.send(before);
  await pipe.send(text);
  await pipe.end();
  await transport.ended;
  assert.deepEqual(received[1], message);
});

Deno.test("StdioTransport gives only text that can be encoded", async () => {
  const { pipe, transport, received } = connect();
  await transport.start();
  await pipe.send(String.raw`{"jsonrpc":"2.0","id":1,"method":"a\ud800b"}`);
  await pipe.end();
  await transport.ended;
  assert.deepEqual(received, [{ ...ping(1), method: "a\ufffdb" }]);
});

Deno.test("StdioTransport ends the connection at a line that is too long (R2)", async () => {
  const { pipe, transport, errors } = connect();
  await transport.start();
  for (let mebibyte = 0; mebibyte < 11; mebibyte++) {
    await pipe.sendBytes(new Uint8Array(1024 * 1024).fill(0x20)).catch(() => {});
  }
  await transport.ended;
  assert.deepEqual(errors, ["Message is longer than 10485760 bytes"]);
});

Deno.test("StdioTransport ends when its output is gone", async () => {
  const { pipe, transport } = connect();
  let closed = 0;
  transport.onclose = () => closed += 1;
  await transport.start();
  await pipe.closeOutput();
  await assert.rejects(transport.send({ jsonrpc: "2.0", id: 1, result: {} }));
  await transport.ended;
  await transport.close();
  assert.equal(closed, 1);
});
