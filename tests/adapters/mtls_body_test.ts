import assert from "node:assert/strict";
import * as z from "@zod/zod";
import { AppError } from "@gateway/shared/errors";
import { readJsonBody } from "@gateway/shared/http";
import { broker, RawConnection, startServer, withFetch } from "./mtls_fixture.ts";

const SHORT = { headersMs: 1_000, requestMs: 2_000 };
const LIMIT = 65_536;
const echoLength = async (request: Request) => {
  const { text } = await readJsonBody(request, { maxBytes: LIMIT, schema: z.object({ text: z.string() }) });
  return Response.json({ length: text.length });
};
const bodyOf = (bytes: number) => JSON.stringify({ text: "a".repeat(bytes - '{"text":""}'.length) });

Deno.test.each([
  { name: "64 KiB", body: () => bodyOf(LIMIT), status: 200 },
  { name: "64 KiB and one byte", body: () => bodyOf(LIMIT + 1), status: 413 },
  { name: "64 KiB and one byte of unknown length", body: () => streamOf(bodyOf(LIMIT + 1)), status: 413 },
  { name: "64 KiB in pieces", body: () => streamOf(bodyOf(LIMIT)), status: 200 },
  { name: "8 MiB", body: () => bodyOf(8 << 20), status: 413 },
])("startMtlsServer() with readJsonBody() answers $status to $name", async ({ body, status }) => {
  await using server = await startServer(echoLength);
  await withFetch(broker, async (fetch) => {
    const headers = { "content-type": "application/json; charset=utf-8" };
    const response = await fetch(server.url, { method: "POST", headers, body: body() });
    await response.body?.cancel();
    assert.equal(response.status, status);
  });
  assert.deepEqual(server.errors, []);
});

function streamOf(text: string): ReadableStream<Uint8Array<ArrayBuffer>> {
  const bytes = new TextEncoder().encode(text);
  return ReadableStream.from([0, 1, 2].map((third) => {
    const size = Math.ceil(bytes.length / 3);
    return bytes.slice(third * size, (third + 1) * size);
  }));
}

const HEAD = "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n";

Deno.test("startMtlsServer() gives up on a body that stops half-way", async () => {
  const outcome = Promise.withResolvers<unknown>();
  await using server = await startServer((request) => {
    const answer = echoLength(request);
    answer.catch(outcome.resolve);
    return answer;
  }, { timeouts: SHORT });
  using connection = await RawConnection.open(server.port);
  await connection.write(`${HEAD}Content-Length: 100\r\n\r\n{"text":`);
  assert.match(await connection.read(), /^HTTP\/1\.1 408 .*"code":"timeout"/s);
  const error = await outcome.promise;
  assert.ok(error instanceof AppError && error.code === "invalid_request", String(error));
});

Deno.test.each([
  { name: "with a length", text: `${HEAD}Content-Length: 100\r\n\r\n{"text":` },
  { name: "in chunks", text: `${HEAD}Transfer-Encoding: chunked\r\n\r\n8\r\n{"text":\r\n` },
])("readJsonBody() fails when the client cuts off a body $name", async ({ text }) => {
  const started = Promise.withResolvers<void>();
  const outcome = Promise.withResolvers<unknown>();
  await using server = await startServer((request) => {
    started.resolve();
    const answer = echoLength(request);
    answer.catch(outcome.resolve);
    return answer;
  });
  {
    using connection = await RawConnection.open(server.port);
    await connection.write(text);
    await started.promise;
  }
  const error = await outcome.promise;
  assert.ok(error instanceof AppError && error.code === "invalid_request", String(error));
  assert.deepEqual(server.errors, []);
});
