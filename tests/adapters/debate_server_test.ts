import assert from "node:assert/strict";
import { startServer } from "../../debate/web/start_server.ts";
import { freePort } from "../stage/free_port.ts";

Deno.test("startServer() tells the handler the address that a request comes from, whatever its headers say", async () => {
  const server = startServer(
    { WEB_HOST: "127.0.0.1", WEB_PORT: freePort() },
    (_request, address) => Promise.resolve(new Response(address)),
  );
  try {
    const headers = { "x-forwarded-for": "203.0.113.7", forwarded: "for=203.0.113.7" };
    assert.equal(await (await fetch(server.url, { headers })).text(), "127.0.0.1");
  } finally {
    await server.close();
  }
});
