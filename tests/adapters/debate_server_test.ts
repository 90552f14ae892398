import assert from "node:assert/strict";
import { systemClock } from "@gateway/shared/clock";
import { FakeClock } from "@gateway/shared/testing";
import { WebFixture } from "../../debate/testing/web_fixture.ts";
import { startServer } from "../../debate/web/serve.ts";
import { freePort } from "../stage/free_port.ts";

Deno.test("startServer() tells the handler the address that a request comes from, whatever its headers say", async () => {
  const server = await startServer(
    { WEB_HOST: "127.0.0.1", WEB_PORT: freePort() },
    (_request, { address }) => Promise.resolve(new Response(address)),
    { clock: systemClock, onError: () => {} },
  );
  try {
    const headers = { "x-forwarded-for": "203.0.113.7", forwarded: "for=203.0.113.7" };
    assert.equal(await (await fetch(server.url, { headers })).text(), "127.0.0.1");
  } finally {
    await server.close();
  }
});

Deno.test.each([
  { name: "that names nobody", head: "GET /api/runs HTTP/1.1\r\nHost: x", status: 401 },
  { name: "for liveness", head: "GET /healthz HTTP/1.1\r\nHost: x", status: 200 },
  { name: "whose host is invalid", head: "GET /api/runs HTTP/1.1\r\nHost: [", status: 401 },
  // A URL made of these has the path /healthz, while the text after its host is /api/runs.
  { name: "whose host holds a path", head: "GET /api/runs HTTP/1.1\r\nHost: x\\healthz?", status: 401 },
  {
    name: "whose host holds a path and a hash",
    head: "GET /api/runs HTTP/1.1\r\nHost: x\\healthz#",
    status: 401,
  },
  {
    name: "whose target holds another path",
    head: "GET http://x\\healthz?/api/runs HTTP/1.1\r\nHost: x",
    status: 400,
  },
  { name: "with dots", head: "GET /api/runs/../../healthz HTTP/1.1\r\nHost: x", status: 200 },
])("a request without credentials $name is told no more than that the server is alive", async (request) => {
  const web = await WebFixture.open({ env: { WEB_USERNAME: "ann", WEB_PASSWORD: "secret" } });
  const ports = { clock: systemClock, onError: () => {} };
  const server = await startServer({ WEB_HOST: "127.0.0.1", WEB_PORT: freePort() }, web.handler, ports);
  try {
    const { hostname, port } = new URL(server.url);
    using connection = await Deno.connect({ hostname, port: Number(port) });
    await connection.write(new TextEncoder().encode(`${request.head}\r\nConnection: close\r\n\r\n`));
    const answer = await new Response(connection.readable).text();
    const { status } = request;
    assert.match(answer, new RegExp(`^HTTP/1\\.1 ${status} `));
    if (status === 200) assert.match(answer, /\r\n\r\nok\n$/);
  } finally {
    await server.close();
  }
});

Deno.test("a request that does not end keeps a server that closes waiting for its grace, no longer", async () => {
  const clock = new FakeClock();
  const [begun, answer] = [Promise.withResolvers<void>(), Promise.withResolvers<Response>()];
  const server = await startServer({ WEB_HOST: "127.0.0.1", WEB_PORT: freePort() }, () => {
    begun.resolve();
    return answer.promise;
  }, { clock, onError: () => {} });
  const request = fetch(server.url);
  await begun.promise;
  let isClosed = false;
  const closed = server.close().then(() => isClosed = true);
  await clock.advance(4999);
  assert.equal(isClosed, false);
  await clock.advance(1);
  await closed;
  answer.resolve(new Response("late"));
  assert.equal(await (await request).text(), "late");
});
