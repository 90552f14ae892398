import assert from "node:assert/strict";
import { connect } from "node:tls";
import { AppError } from "@gateway/shared/errors";
import { startTlsServer, type TlsServerOptions, type UnknownPeer } from "@gateway/shared/http/tls_server";
import { broker, ca, serverIdentity } from "./mtls_fixture.ts";

async function start(handler: TlsServerOptions<UnknownPeer>["handler"]) {
  const errors: unknown[] = [];
  const onError = (error: unknown) => errors.push(error);
  const server = await startTlsServer({ listen: "127.0.0.1:0", ...serverIdentity, handler, onError });
  return { server, errors, url: `https://127.0.0.1:${server.address.port}/` };
}

Deno.test("startTlsServer() serves a client without certificate", async () => {
  const { server, url } = await start((_request, peer) => new Response(String(peer)));
  await using _server = server;
  using client = Deno.createHttpClient({ caCerts: [ca] });
  assert.equal(await (await fetch(url, { client })).text(), "undefined");
});

Deno.test("startTlsServer() asks for no certificate, and takes none for a proof", async () => {
  const { server, url } = await start((_request, peer) => new Response(String(peer)));
  await using _server = server;
  using client = Deno.createHttpClient({ caCerts: [ca], ...broker });
  assert.equal(await (await fetch(url, { client })).text(), "undefined");
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

Deno.test("startTlsServer() sends an event stream as it comes, and tells its source that the client left", async () => {
  const left = Promise.withResolvers<void>();
  const { server, url } = await start(() =>
    new Response(
      new ReadableStream({
        start: (controller) => controller.enqueue(new TextEncoder().encode("data: 1\n\n")),
        cancel: () => left.resolve(),
      }),
      { headers: { "content-type": "text/event-stream" } },
    )
  );
  await using _server = server;
  using client = Deno.createHttpClient({ caCerts: [ca] });
  const gone = new AbortController();
  const response = await fetch(url, { client, signal: gone.signal });
  const chunk = await response.body?.getReader().read();
  assert.equal(new TextDecoder().decode(chunk?.value), "data: 1\n\n");
  gone.abort();
  await left.promise;
});

Deno.test("startTlsServer() turns what a handler throws into an answer", async () => {
  const { server, errors, url } = await start(() => {
    throw new AppError("forbidden", "session user mismatch");
  });
  await using _server = server;
  using client = Deno.createHttpClient({ caCerts: [ca] });
  const response = await fetch(url, { client });
  assert.equal(response.status, 403);
  assert.equal((await response.json()).detail, "session user mismatch");
  assert.deepEqual(errors, []);
});

Deno.test.each([
  { name: "a certificate that is none", change: { cert: "x" } },
  { name: "another certificate's key", change: { key: broker.key } },
  { name: "an address that is none", change: { listen: "nowhere" } },
])("startTlsServer() refuses $name", async ({ change }) => {
  const handler = () => new Response();
  const options = { listen: "127.0.0.1:0", ...serverIdentity, handler, onError: () => {} };
  await assert.rejects(
    async () => await startTlsServer({ ...options, ...change }),
    (error) => error instanceof AppError && error.code === "invalid_config",
  );
});
