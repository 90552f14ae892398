import assert from "node:assert/strict";
import { connect } from "node:tls";
import { systemClock } from "@gateway/shared/clock";
import {
  JsonClient,
  ListenerMetrics,
  problemResponse,
  startPlainServer,
  startTlsServer,
  type TlsServerOptions,
  type UnknownPeer,
} from "@gateway/shared/http";
import {
  broker,
  ca,
  foreignCa,
  hello,
  type Identity,
  issue,
  RawConnection,
  renewed,
  REQUEST,
  serverIdentity,
  startServer,
  statusOf,
  withFetch,
} from "./mtls_fixture.ts";
import { connect as connectPlain } from "node:net";
import { AppError } from "@gateway/shared/errors";
import { addCertificateMetrics } from "@gateway/shared/http/monitor";
import { createMetrics } from "@gateway/shared/service/metrics";
import { createCertificateAuthority, issueLeaf } from "../../ctl/identities/x509.ts";
import { poll } from "../stage/poll.ts";
import { createFolder } from "./ctl_fixture.ts";

const HOUR_MS = 3_600_000;

function tlsOf({ cert, key }: Identity, clientCa = ca) {
  return { cert, key, clientCa };
}

async function shownBy(port: number): Promise<string> {
  const socket = connect({ host: "127.0.0.1", port, ca, servername: "localhost" });
  await new Promise((resolve, reject) => socket.once("secureConnect", resolve).once("error", reject));
  const { raw } = socket.getPeerCertificate();
  socket.destroy();
  return Uint8Array.from(raw).toBase64();
}

const base64 = (pem: string) => pem.replaceAll(/-----[^-]+-----|\s/g, "");

Deno.test("a renewed certificate is used for new connections, and open connections continue", async () => {
  await using server = await startServer(hello);
  using open = await RawConnection.open(server.port);
  assert.match(await open.get(), /200/);
  server.server.renew(tlsOf(renewed));
  assert.equal(await shownBy(server.port), base64(renewed.cert));
  assert.match(await open.get(), /200/);
});

Deno.test("a listener keeps its certificate if the new one does not match the key", async () => {
  await using server = await startServer(hello);
  const mixed = { ...tlsOf(renewed), key: serverIdentity.key };
  assert.throws(() => server.server.renew(mixed), /it is not the key of the certificate/);
  assert.equal(await shownBy(server.port), base64(serverIdentity.cert));
});

Deno.test("a denied caller is rejected immediately, also on its open connection", async () => {
  await using server = await startServer(hello);
  using open = await RawConnection.open(server.port);
  assert.match(await open.get(), /200/);
  server.server.deny(new Set(["broker-1"]));
  await open.write(REQUEST).catch(() => undefined);
  // There is no error response, because the connection itself has ended.
  assert.equal(await open.read(), "");
  const other = await issue({ subject: "CN=broker-2", usage: "client" });
  assert.deepEqual([await statusOf(server.url), await statusOf(server.url, other)], [401, 200]);
});

Deno.test("removing a CA closes connections and rejects certificates of that CA", async () => {
  await using server = await startServer(hello);
  using open = await RawConnection.open(server.port);
  assert.match(await open.get(), /200/);
  server.server.renew(tlsOf(serverIdentity, foreignCa));
  await open.write(REQUEST).catch(() => undefined);
  assert.doesNotMatch(await open.read(), /200/);
  const [former, now] = [broker, await issue({ subject: "CN=broker-1", usage: "client" }, "foreign")];
  for (const [who, status] of [[former, 401], [now, 200], [former, 401]] as const) {
    assert.equal(await statusOf(server.url, who), status);
  }
});

Deno.test("a client uses its renewed certificate, and running requests complete", async () => {
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

Deno.test("an expired certificate is rejected with the time of its expiry", async () => {
  const notAfter = new Date(Date.now() - HOUR_MS);
  const notBefore = new Date(Date.now() - 2 * HOUR_MS);
  const late = await issue({ subject: "CN=broker-1", usage: "client", notBefore, notAfter });
  await using server = await startServer(hello);
  const answer = await withFetch(late, async (fetch) => await (await fetch(server.url)).text());
  assert.match(answer, new RegExp(`expired at ${notAfter.toISOString().slice(0, 19)}`));
});

Deno.test("a certificate of X.509 version 1 is rejected with the reason (needs openssl)", async () => {
  await using folder = await createFolder();
  const openssl = async (command: string, input = "") => {
    const options = { cwd: folder.path, stdin: "piped", stdout: "piped", stderr: "null" } as const;
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
  // Without extensions, this creates a version 1 certificate.
  await openssl("x509 -req -in client.csr -CA ca.crt -CAkey ca.key -CAcreateserial -out client.crt");
  const clientCa = await Deno.readTextFile(`${folder.path}/ca.crt`);
  await using server = await startServer(hello, { clientCa });
  const client = `s_client -quiet -connect 127.0.0.1:${server.port} -cert client.crt -key client.key`;
  const answer = await openssl(client, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  assert.match(answer, /"status":401.*X\.509 version 1: issue it as version 3/);
});

async function start(handler: TlsServerOptions<UnknownPeer>["handler"]) {
  const errors: unknown[] = [];
  const onError = (error: unknown) => errors.push(error);
  const server = await startTlsServer({ listen: "127.0.0.1:0", ...serverIdentity, handler, onError });
  return { server, errors, url: `https://127.0.0.1:${server.address.port}/` };
}

Deno.test("startTlsServer() serves a client without certificate and reports its address", async () => {
  const { server, url } = await start((_request, { address }) => new Response(address));
  await using _server = server;
  using client = Deno.createHttpClient({ caCerts: [ca] });
  assert.equal(await (await fetch(url, { client })).text(), "127.0.0.1");
});

Deno.test("startTlsServer() requests no client certificate and ignores one that is sent", async () => {
  const { server, url } = await start((_request, peer) => new Response(Object.keys(peer).join()));
  await using _server = server;
  using client = Deno.createHttpClient({ caCerts: [ca], ...broker });
  assert.equal(await (await fetch(url, { client })).text(), "address,trust");
});

Deno.test("startTlsServer() rejects TLS 1.2", async () => {
  const { server } = await start(() => new Response());
  await using _server = server;
  const { port } = server.address;
  const old = { port, host: "127.0.0.1", ca, maxVersion: "TLSv1.2" } as const;
  await assert.rejects(
    new Promise<void>((resolve, reject) => connect(old, () => resolve()).on("error", reject)),
  );
});

Deno.test.each([{ length: 0 }, { length: 65_536 }, { length: 65_538 }, { length: 1_000_000 }])(
  "startTlsServer() sends a text of $length bytes completely, whole or in pieces",
  async ({ length }) => {
    const text = "ä".repeat(length / 2);
    const bytes = new TextEncoder().encode(text);
    // The second piece starts in the middle of a character.
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

/** More than the socket buffers between two sockets of one machine. */
const LONG = 64 << 20;

Deno.test.each([{ type: "application/json" }, { type: "text/event-stream" }, { type: "image/png" }])(
  "startTlsServer() reads the end of a long response ($type) only after the client has read the rest",
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

Deno.test("a listener does not share its address, and names it", async () => {
  const options = { handler: () => new Response("ok"), onError: () => {} };
  await using server = await startPlainServer({ ...options, listen: "127.0.0.1:0" });
  const listen = `127.0.0.1:${server.address.port}`;
  await assert.rejects(startPlainServer({ ...options, listen }), {
    code: "invalid_config",
    message: `Cannot listen on ${listen}: another process uses this address; find it with ss -ltnp`,
  });
});

Deno.test("a listener counts responses by status and code for any path, and malformed HTTP", async () => {
  const metrics = createMetrics();
  const traffic = new ListenerMetrics(metrics);
  await using server = await startPlainServer({
    listen: "127.0.0.1:0",
    handler(request) {
      const { pathname } = new URL(request.url);
      if (pathname === "/denied") throw new AppError("denied", "no");
      if (pathname === "/defect") throw new Error("x");
      if (pathname === "/made") return problemResponse(new AppError("frozen", "no"));
      return new Response("ok");
    },
    onError: () => {},
    onAnswer: traffic.onAnswer,
    limits: { unauthenticated: 40, unauthenticatedPerSource: 20, authenticated: 10 },
  });
  traffic.watch(server);
  const { port } = server.address;
  for (const path of ["/", "/denied", "/defect", "/made", `/${crypto.randomUUID()}`]) {
    await (await fetch(`http://127.0.0.1:${port}${path}`)).text();
  }
  const socket = connectPlain(port, "127.0.0.1");
  socket.end("this is not HTTP\r\n\r\n");
  await new Promise((resolve) => socket.resume().on("close", resolve));
  const shown = async () => (await metrics.text()).match(/^http_server_responses_total\{.*$/gm) ?? [];
  assert.deepEqual((await shown()).toSorted(), [
    'http_server_responses_total{status="200",code=""} 2',
    'http_server_responses_total{status="400",code="invalid_request"} 1',
    'http_server_responses_total{status="403",code="denied"} 1',
    'http_server_responses_total{status="403",code="frozen"} 1',
    'http_server_responses_total{status="500",code="internal"} 1',
  ]);
  const held = connectPlain(port, "127.0.0.1");
  await poll(
    async () => /^http_server_connections\{peer="unauthenticated"\} 1$/m.test(await metrics.text()),
    { what: "the open connection to be shown" },
  );
  const text = await metrics.text();
  assert.match(text, /^http_server_connections\{peer="authenticated"\} 0$/m);
  assert.match(text, /^http_server_connections_limit\{peer="authenticated"\} 10$/m);
  assert.match(text, /^http_server_connections_limit\{peer="unauthenticated"\} 40$/m);
  held.destroy();
});

Deno.test("certificate metrics report the earliest expiry of a file with several certificates", async () => {
  await using folder = await createFolder();
  const authority = await createCertificateAuthority({ commonName: "CA" });
  const ends = [new Date("2031-02-03T04:05:06Z"), new Date("2030-02-03T04:05:06Z")];
  const leaves = await Promise.all(
    ends.map((notAfter) => issueLeaf(authority, { subject: "CN=x", usage: "server", notAfter })),
  );
  await Deno.writeTextFile(`${folder.path}/chain.crt`, leaves.map(({ certPem }) => certPem).join("\n"));
  const metrics = createMetrics();
  await addCertificateMetrics(metrics, { server_cert: `${folder.path}/chain.crt`, client_ca: "" });
  assert.deepEqual((await metrics.text()).match(/^certificate_expiry.*$/gm), [
    `certificate_expiry_timestamp_seconds{certificate="server_cert"} ${Date.UTC(2030, 1, 3, 4, 5, 6) / 1000}`,
  ]);
});
