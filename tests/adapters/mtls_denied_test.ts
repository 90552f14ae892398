import assert from "node:assert/strict";
import { join } from "node:path";
import { FRESH_SECONDS, keepListenerFresh } from "@gateway/shared/http";
import { FakeClock } from "@gateway/shared/testing";
import {
  broker,
  ca,
  hello,
  issue,
  RawConnection,
  serverIdentity,
  startServer,
  withFetch,
} from "./mtls_fixture.ts";
import { poll } from "../stage/poll.ts";

const REQUEST = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
const LIST = "the list of denied callers";

/** A listener that takes what lies in a folder, and says what it did not take. */
async function startFresh() {
  const folder = await Deno.makeTempDir();
  const at = (name: string) => join(folder, name);
  const put = (name: string, text: string) => Deno.writeTextFile(at(name), text);
  await put("server.crt", serverIdentity.cert);
  await put("server.key", serverIdentity.key);
  await put("ca.crt", ca);
  await put("denied", "");
  const server = await startServer(hello);
  const clock = new FakeClock();
  const stop = new AbortController();
  const lines: string[] = [];
  const running = keepListenerFresh(
    {
      clock,
      signal: stop.signal,
      logger: { info: (text) => void lines.push(text), warn: (text) => void lines.push(text) },
      current: { ...serverIdentity, clientCa: ca, denied: new Set() },
    },
    {
      server_cert: at("server.crt"),
      server_key: at("server.key"),
      client_ca: at("ca.crt"),
      denied_callers: at("denied"),
    },
    server.server,
  );
  return {
    ...server,
    lines,
    put,
    remove: (name: string) => Deno.remove(at(name)),
    async look() {
      // Certificates and the list are looked at apart; each sleeps when it has looked, which takes time of the disk's.
      const rest = () => poll(() => clock.sleeping === 2, { what: "both to have looked", intervalMs: 1 });
      await rest();
      await clock.advance(FRESH_SECONDS * 1000);
      await rest();
    },
    async [Symbol.asyncDispose]() {
      stop.abort();
      await running;
      await server.server.close();
      await Deno.remove(folder, { recursive: true });
    },
  };
}

const renewed = await issue({
  subject: "CN=signer",
  usage: "server",
  subjectAltNames: ["localhost", "127.0.0.1"],
});

const statusOf = (url: string) =>
  withFetch(broker, async (fetch) => {
    const response = await fetch(url);
    await response.body?.cancel();
    return response.status;
  });

Deno.test(`${LIST} counts though a renewal failed half-way, and ends open connections at once`, async () => {
  await using listener = await startFresh();
  using open = await RawConnection.open(listener.port);
  await open.write(REQUEST);
  assert.match(await open.read("hello"), /200/);
  await listener.put("server.crt", renewed.cert);
  await listener.put("denied", "broker-1\n");
  await listener.look();
  await open.write(REQUEST).catch(() => undefined);
  assert.equal(await open.read(), "");
  assert.equal(await statusOf(listener.url), 401);
});

Deno.test(`${LIST} that is broken or gone stays as it was, and keeps no certificate from being renewed`, async () => {
  await using listener = await startFresh();
  await listener.put("denied", "broker-1\n");
  await listener.look();
  for (const breakIt of [() => listener.put("denied", "broker-1\nbrok"), () => listener.remove("denied")]) {
    await breakIt();
    await listener.look();
    assert.equal(await statusOf(listener.url), 401);
    assert.equal(listener.lines.at(-1), "denied_callers: its files are not taken");
  }
  await listener.put("server.key", renewed.key);
  await listener.put("server.crt", renewed.cert);
  await listener.look();
  assert.equal(listener.lines.at(-1), "the listener's certificates: what lies in its files now is in force");
  assert.equal(await statusOf(listener.url), 401);
});

Deno.test("a caller that is denied in the middle of an answer gets no more of it", async () => {
  const { promise: held, resolve: release } = Promise.withResolvers<void>();
  const { promise: asked, resolve: arrive } = Promise.withResolvers<void>();
  await using server = await startServer(async () => {
    arrive();
    await held;
    return new Response("a secret");
  });
  using open = await RawConnection.open(server.port);
  await open.write(REQUEST);
  await asked;
  server.server.deny(new Set(["broker-1"]));
  release();
  assert.equal(await open.read(), "");
});
