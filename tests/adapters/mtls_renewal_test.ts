import assert from "node:assert/strict";
import { connect } from "node:tls";
import { systemClock } from "@gateway/shared/clock";
import { JsonClient } from "@gateway/shared/http";
import {
  broker,
  ca,
  foreignCa,
  hello,
  type Identity,
  issue,
  RawConnection,
  serverIdentity,
  startServer,
  withFetch,
} from "./mtls_fixture.ts";

const REQUEST = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
const HOUR_MS = 3_600_000;

const renewed = await issue({
  subject: "CN=signer",
  usage: "server",
  subjectAltNames: ["localhost", "127.0.0.1"],
});

function tlsOf({ cert, key }: Identity, clientCa = ca) {
  return { cert, key, clientCa };
}

/** The bytes of the certificate that a listener shows. */
async function shownBy(port: number): Promise<string> {
  const socket = connect({ host: "127.0.0.1", port, ca, servername: "localhost" });
  await new Promise((resolve, reject) => socket.once("secureConnect", resolve).once("error", reject));
  const { raw } = socket.getPeerCertificate();
  socket.destroy();
  return Uint8Array.from(raw).toBase64();
}

const base64 = (pem: string) => pem.replaceAll(/-----[^-]+-----|\s/g, "");

Deno.test("a renewed certificate is shown from the next connection on, and open connections go on", async () => {
  await using server = await startServer(hello);
  using open = await RawConnection.open(server.port);
  await open.write(REQUEST);
  assert.match(await open.read("hello"), /200/);
  server.server.renew(tlsOf(renewed));
  assert.equal(await shownBy(server.port), base64(renewed.cert));
  await open.write(REQUEST);
  assert.match(await open.read("hello"), /200/);
});

Deno.test("a listener keeps its certificate when the new one is not that of the key", async () => {
  await using server = await startServer(hello);
  assert.throws(
    () => server.server.renew({ ...tlsOf(renewed), key: serverIdentity.key }),
    /it is not the key of the certificate/,
  );
  assert.equal(await shownBy(server.port), base64(serverIdentity.cert));
});

Deno.test("a caller that is denied is refused at once, also on its open connection", async () => {
  await using server = await startServer(hello);
  using open = await RawConnection.open(server.port);
  await open.write(REQUEST);
  assert.match(await open.read("hello"), /200/);
  server.server.deny(new Set(["broker-1"]));
  await open.write(REQUEST).catch(() => undefined);
  // Not even a refusal: the connection itself has ended.
  assert.equal(await open.read(), "");
  const other = await issue({ subject: "CN=broker-2", usage: "client" });
  const status = (who: Identity) =>
    withFetch(who, async (fetch) => {
      const response = await fetch(server.url);
      await response.body?.cancel();
      return response.status;
    });
  assert.deepEqual([await status(broker), await status(other)], [401, 200]);
});

Deno.test("a CA that is believed no more ends the connections of those whom it vouched for", async () => {
  await using server = await startServer(hello);
  using open = await RawConnection.open(server.port);
  await open.write(REQUEST);
  assert.match(await open.read("hello"), /200/);
  server.server.renew(tlsOf(serverIdentity, foreignCa));
  await open.write(REQUEST).catch(() => undefined);
  assert.doesNotMatch(await open.read(), /200/);
  const [former, now] = [broker, await issue({ subject: "CN=broker-1", usage: "client" }, "foreign")];
  for (const [who, status] of [[former, 401], [now, 200], [former, 401]] as const) {
    await withFetch(who, async (fetch) => {
      const response = await fetch(server.url);
      await response.body?.cancel();
      assert.equal(response.status, status);
    });
  }
});

Deno.test("a client shows its renewed certificate, and what is under way is answered", async () => {
  const later = await issue({ subject: "CN=broker-9", usage: "client" });
  const { promise: held, resolve: release } = Promise.withResolvers<void>();
  await using server = await startServer(async (request, { caller }) => {
    if (new URL(request.url).pathname === "/held") await held;
    return Response.json({ caller });
  });
  using client = new JsonClient({ clock: systemClock, baseUrl: server.url, ...broker, ca });
  const ask = async (path: string) => (await client.request({ method: "GET", path })).body;
  assert.deepEqual(await ask("/"), { caller: "broker-1" });
  const underWay = ask("/held");
  client.renew({ ...later, ca });
  assert.deepEqual(await ask("/"), { caller: "broker-9" });
  release();
  assert.deepEqual(await underWay, { caller: "broker-1" });
  assert.deepEqual(await ask("/"), { caller: "broker-9" });
});

Deno.test("a certificate that has expired is refused with the time of its end", async () => {
  const notAfter = new Date(Date.now() - HOUR_MS);
  const late = await issue({
    subject: "CN=broker-1",
    usage: "client",
    notBefore: new Date(Date.now() - 2 * HOUR_MS),
    notAfter,
  });
  await using server = await startServer(hello);
  const answer = await withFetch(late, async (fetch) => await (await fetch(server.url)).text());
  assert.match(answer, new RegExp(`expired at ${notAfter.toISOString().slice(0, 19)}`));
});

Deno.test("a certificate of X.509 version 1 is refused with what is wrong with it (needs openssl)", async () => {
  const folder = await Deno.makeTempDir();
  try {
    const openssl = async (command: string, input = "") => {
      const options = { cwd: folder, stdin: "piped", stdout: "piped", stderr: "null" } as const;
      await using child = new Deno.Command("openssl", { args: command.split(" "), ...options }).spawn();
      const writer = child.stdin.getWriter();
      await writer.write(new TextEncoder().encode(input));
      await writer.close();
      const output = await child.output();
      return new TextDecoder().decode(output.stdout);
    };
    const key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
    await openssl(`req -x509 ${key} -keyout ca.key -out ca.crt -subj /CN=callers`);
    await openssl(`req -new ${key} -keyout client.key -out client.csr -subj /CN=broker-1`);
    // Without extensions this makes a certificate of version 1.
    await openssl("x509 -req -in client.csr -CA ca.crt -CAkey ca.key -CAcreateserial -out client.crt");
    await using server = await startServer(hello, { clientCa: await Deno.readTextFile(`${folder}/ca.crt`) });
    const client = `s_client -quiet -connect 127.0.0.1:${server.port} -cert client.crt -key client.key`;
    const answer = await openssl(client, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    assert.match(answer, /"status":401.*X\.509 version 1: issue it as version 3/);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
