import assert from "node:assert/strict";
import { connect } from "node:tls";
import { loadSsh2 } from "../../broker/ssh/ssh2_library.ts";
import {
  broker,
  ca,
  foreignCa,
  hello,
  type Identity,
  issue,
  RawConnection,
  startServer,
  withFetch,
} from "./mtls_fixture.ts";

const client = (cn: string) => ({ subject: [{ CN: [cn] }], usage: "client" as const });

Deno.test("startMtlsServer() tells the handler the CN of a verified certificate", async () => {
  await using server = await startServer(hello);
  await withFetch(broker, async (fetch) => {
    const response = await fetch(server.url);
    assert.equal(response.status, 200);
    assert.equal(await response.text(), "hello broker-1\n");
  });
});

Deno.test.each<{ readonly name: string; readonly identity: () => Promise<Identity | undefined> }>([
  { name: "no certificate", identity: () => Promise.resolve(undefined) },
  { name: "a foreign CA of the same name", identity: () => issue(client("broker-1"), "foreign") },
  {
    name: "an expired certificate",
    identity: () =>
      issue({ ...client("broker-1"), notBefore: new Date("2020-01-01"), notAfter: new Date("2021-01-01") }),
  },
  {
    name: "a certificate that is not valid yet",
    identity: () => issue({ ...client("broker-1"), notBefore: new Date(Date.now() + 3_600_000) }),
  },
  { name: "a server's certificate", identity: () => issue({ subject: "CN=broker-1", usage: "server" }) },
  { name: "two CNs", identity: () => issue({ subject: "CN=broker-1,CN=admin", usage: "client" }) },
  { name: "no CN", identity: () => issue({ subject: "O=gateway", usage: "client" }) },
  { name: "an empty subject (I8)", identity: () => issue({ subject: "", usage: "client" }) },
  { name: "a line break in the CN (I8)", identity: () => issue(client("broker-1\nadmin")) },
])("startMtlsServer() answers 401 to $name, also when the TLS session is resumed", async ({ identity }) => {
  let handled = 0;
  await using server = await startServer((request, peer) => {
    handled++;
    return hello(request, peer);
  });
  await withFetch(await identity(), async (fetch) => {
    // The second and third connection resume the session of the first.
    for (let attempt = 0; attempt < 3; attempt++) {
      const response = await fetch(server.url, { method: "POST", body: "{" });
      assert.equal(response.status, 401);
      assert.equal((await response.json()).code, "unauthenticated");
    }
  });
  assert.equal(handled, 0);
});

Deno.test("startMtlsServer() lets a verified caller resume its TLS session", async () => {
  await using server = await startServer(hello);
  await withFetch(broker, async (fetch) => {
    for (let attempt = 0; attempt < 3; attempt++) {
      assert.equal(await (await fetch(server.url)).text(), "hello broker-1\n");
    }
  });
});

Deno.test("startMtlsServer() does not let a session of one listener in at another with a different CA", async () => {
  const stranger = await issue(client("broker-1"), "foreign");
  await using lenient = await startServer(hello, { clientCa: foreignCa });
  await using strict = await startServer(hello);
  await withFetch(stranger, async (fetch) => {
    assert.equal((await fetch(lenient.url)).status, 200);
    assert.equal((await fetch(strict.url)).status, 401);
    assert.equal((await fetch(strict.url)).status, 401);
  });
});

Deno.test("startMtlsServer() refuses TLS 1.2", async () => {
  await using server = await startServer(hello);
  const socket = connect({ port: server.port, host: "127.0.0.1", ca, ...broker, maxVersion: "TLSv1.2" });
  const outcome = await new Promise<string>((resolve) => {
    socket.on("error", () => resolve("refused"));
    socket.on("secureConnect", () => resolve(`accepted ${socket.getProtocol()}`));
  });
  socket.destroy();
  assert.equal(outcome, "refused");
});

Deno.test("startMtlsServer() answers 401, not 400, to malformed HTTP of an unknown caller", async () => {
  await using server = await startServer(hello);
  using connection = await RawConnection.open(server.port, await issue(client("broker-1"), "foreign"));
  await connection.write("\0\r\n\r\n");
  assert.match(await connection.read(), /^HTTP\/1\.1 401 /);
});

Deno.test("startMtlsServer() names no other caller's request in its answer to malformed HTTP", async () => {
  // A lazy import within a request is among what leaves later events of node in that request (Deno 2.9.6).
  await using server = await startServer(async (request, caller) => {
    await loadSsh2();
    return hello(request, caller);
  });
  using first = await RawConnection.open(server.port);
  await first.write("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  await first.read("hello");
  using second = await RawConnection.open(server.port);
  await second.write("\0\r\n\r\n");
  const answer = await second.read();
  assert.match(answer, /^HTTP\/1\.1 400 /);
  assert.doesNotMatch(answer, /request_id/);
});
