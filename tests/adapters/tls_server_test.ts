import assert from "node:assert/strict";
import { connect } from "node:tls";
import { startTlsServer, type TlsServerOptions, type UnknownPeer } from "@gateway/shared/http";
import { broker, ca, serverIdentity } from "./mtls_fixture.ts";

async function start(handler: TlsServerOptions<UnknownPeer>["handler"]) {
  const errors: unknown[] = [];
  const onError = (error: unknown) => errors.push(error);
  const server = await startTlsServer({ listen: "127.0.0.1:0", ...serverIdentity, handler, onError });
  return { server, errors, url: `https://127.0.0.1:${server.address.port}/` };
}

Deno.test("startTlsServer() serves a client without certificate, and knows its address", async () => {
  const { server, url } = await start((_request, { address }) => new Response(address));
  await using _server = server;
  using client = Deno.createHttpClient({ caCerts: [ca] });
  assert.equal(await (await fetch(url, { client })).text(), "127.0.0.1");
});

Deno.test("startTlsServer() asks for no certificate, and takes none for a proof", async () => {
  const { server, url } = await start((_request, peer) => new Response(Object.keys(peer).join()));
  await using _server = server;
  using client = Deno.createHttpClient({ caCerts: [ca], ...broker });
  assert.equal(await (await fetch(url, { client })).text(), "address,trust");
});

Deno.test("startTlsServer() refuses TLS 1.2", async () => {
  const { server } = await start(() => new Response());
  await using _server = server;
  const { port } = server.address;
  await assert.rejects(
    new Promise((resolve, reject) => {
      const socket = connect(
        { port, host: "127.0.0.1", ca, maxVersion: "TLSv1.2" },
        () => resolve(undefined),
      );
      socket.on("error", reject);
    }),
  );
});

Deno.test.each([{ length: 0 }, { length: 65_536 }, { length: 65_538 }, { length: 1_000_000 }])(
  "startTlsServer() sends a text of $length bytes whole, in however many pieces it comes",
  async ({ length }) => {
    const text = "ä".repeat(length / 2);
    const bytes = new TextEncoder().encode(text);
    // The second piece begins within a character.
    const pieces = length === 0 ? [] : [bytes.subarray(0, 1001), bytes.subarray(1001)];
    const { server, url, errors } = await start((request) => {
      const headers = { "content-type": "application/json" };
      return new Response(request.url.endsWith("pieces") ? ReadableStream.from(pieces) : text, { headers });
    });
    await using _server = server;
    using client = Deno.createHttpClient({ caCerts: [ca] });
    for (const path of ["whole", "pieces"]) {
      assert.equal(await (await fetch(`${url}${path}`, { client })).text(), text);
    }
    assert.deepEqual(errors, []);
  },
);

/** More than the buffers between two sockets of one machine take. */
const LONG = 64 << 20;

Deno.test.each([{ type: "application/json" }, { type: "text/event-stream" }, { type: "image/png" }])(
  "startTlsServer() asks for the end of a long answer ($type) only when the client has taken what was before it",
  async ({ type }) => {
    const ended = Promise.withResolvers<void>();
    let isEnded = false;
    const { server } = await start(() => {
      let pieces = 0;
      const body = new ReadableStream({
        pull(controller) {
          pieces += 1;
          if (pieces === 1) return controller.enqueue(new Uint8Array(LONG).fill(0x20));
          isEnded = true;
          ended.resolve();
          controller.close();
        },
      }, { highWaterMark: 0 });
      return new Response(body, { headers: { "content-type": type } });
    });
    await using _server = server;
    const socket = connect({ port: server.address.port, host: "127.0.0.1", ca });
    socket.write("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    await new Promise((resolve) => socket.once("readable", resolve));
    assert.equal(isEnded, false);
    let taken = 0;
    socket.on("data", (bytes) => taken += bytes.length);
    await ended.promise;
    await new Promise((resolve) => socket.once("end", resolve));
    assert.ok(taken > LONG);
    socket.destroy();
  },
);
