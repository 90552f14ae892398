import assert from "node:assert/strict";
import { createServer } from "node:https";
import { realTools, temporaryFolder } from "./debate_tools_fixture.ts";
import { ca, issue } from "./mtls_fixture.ts";

interface TestServer extends AsyncDisposable {
  readonly url: string;
  readonly seen: readonly { readonly url: string; readonly headers: Headers }[];
}

function serve(handler: (request: Request) => Response | Promise<Response>): TestServer {
  const seen: { url: string; headers: Headers }[] = [];
  const server = Deno.serve({
    hostname: "127.0.0.1",
    port: 0,
    onListen: () => {},
    onError: () => new Response(),
  }, (request) => {
    seen.push({ url: request.url, headers: new Headers(request.headers) });
    return handler(request);
  });
  return {
    url: `http://127.0.0.1:${server.addr.port}`,
    seen,
    [Symbol.asyncDispose]: () => server.shutdown(),
  };
}

const local = () => realTools({ settings: { HTTP_ALLOWED_HOSTS: ["localhost", "127.0.0.1"] } });

Deno.test("http_get reads text from a listed host by address and by name", async () => {
  await using server = serve(() => Response.json({ status: "UP hunter2" }));
  const call = await local();
  const { ok, text } = await call("http_get", { url: `${server.url}/health?a=b` });
  assert.equal(ok, true, text);
  assert.match(
    text,
    /: 200 OK \[\d+ ms\]\ncontent-type: application\/json\n\n\{"status":"UP \[REDACTED\]"\}$/,
  );
  assert.equal(
    (await call("http_get", { url: `${server.url.replace("127.0.0.1", "localhost")}/x` })).ok,
    true,
  );
  const [first, second] = server.seen;
  assert.equal(new URL(first?.url ?? "").search, "?a=b");
  assert.equal(first?.headers.get("accept-encoding"), "identity");
  assert.equal(second?.headers.get("host"), new URL(server.url).host.replace("127.0.0.1", "localhost"));
});

Deno.test("http_get does not connect to this machine unless it is listed", async () => {
  await using server = serve(() => new Response("inner"));
  const call = await realTools({});
  for (
    const host of "127.0.0.1 localhost [::1] [::ffff:127.0.0.1] 0.0.0.0 0 127.1 0x7f000001".split(" ")
  ) {
    const { ok, text } = await call("http_get", { url: `http://${host}:${new URL(server.url).port}/` });
    assert.equal(ok, false, host);
    assert.match(text, /is not allowed.*HTTP_ALLOWED_HOSTS|does not resolve to an address/);
  }
  assert.deepEqual(server.seen, []);
});

Deno.test("http_get does not follow a redirect to an unlisted host", async () => {
  await using inner = serve(() => new Response("inner"));
  await using server = serve(() => Response.redirect(inner.url.replace("127.0.0.1", "127.0.0.2")));
  const { ok, text } = await (await local())("http_get", { url: server.url });
  assert.equal(ok, false);
  assert.match(text, /127\.0\.0\.2 is loopback/);
  assert.deepEqual(inner.seen, []);
});

Deno.test("http_get never decompresses a response", async () => {
  const zeros = new Blob([new Uint8Array(10_000_000)]).stream().pipeThrough(new CompressionStream("gzip"));
  const bomb = new Uint8Array(await new Response(zeros).arrayBuffer());
  await using server = serve(() =>
    new Response(bomb, { headers: { "content-encoding": "gzip", "content-type": "text/plain" } })
  );
  const { ok, text } = await (await local())("http_get", { url: server.url });
  assert.equal(ok, false);
  assert.match(text, /compressed body \(gzip\)/);
});

Deno.test("http_get reads an endless body up to its limit", async () => {
  let sent = 0;
  await using server = serve(() =>
    new Response(
      new ReadableStream({
        pull(controller) {
          sent += 65_536;
          controller.enqueue(new Uint8Array(65_536).fill(0x61));
        },
      }),
      { headers: { "content-type": "text/plain" } },
    )
  );
  const { ok, text } = await (await local())("http_get", { url: server.url });
  assert.equal(ok, true, text);
  assert.match(text, /truncated after 262144 bytes/);
  assert.ok(text.length <= 4000);
  assert.ok(sent < 64_000_000, String(sent));
});

Deno.test("http_get drops a truncated word, which may be part of a secret", async () => {
  const body = "a ".repeat(262_144 / 2 - 10) + "https://user:hunter2@host/x";
  await using server = serve(() => new Response(body, { headers: { "content-type": "text/plain" } }));
  const { text } = await (await local())("http_get", { url: server.url });
  assert.match(text, /truncated after 262144 bytes/);
  assert.match(text, /a a$/);
});

Deno.test("http_get stops waiting for a server that never responds", async () => {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const accepted = listener.accept().catch(() => undefined);
  const { ok, text } = await (await local())("http_get", {
    url: `http://127.0.0.1:${listener.addr.port}/`,
    timeout: 0.3,
  });
  // The request may have stopped earlier.
  listener.close();
  (await accepted)?.close();
  assert.deepEqual({ ok, text }, { ok: false, text: "http_get failed: no response within 0.3 s" });
});

Deno.test("http_get stops reading an endless slow body", async () => {
  let timer: ReturnType<typeof setInterval> | undefined;
  await using server = serve(() =>
    new Response(
      new ReadableStream({
        start(controller) {
          timer = setInterval(() => controller.enqueue(new TextEncoder().encode("x")), 20);
        },
        cancel: () => clearInterval(timer),
      }),
      { headers: { "content-type": "text/plain" } },
    )
  );
  const { ok } = await (await local())("http_get", { url: server.url, timeout: 0.3 });
  assert.equal(ok, false);
});

Deno.test("http_get stops when its run is canceled", async () => {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const run = new AbortController();
  const call = await realTools({ settings: { HTTP_ALLOWED_HOSTS: ["127.0.0.1"] }, signal: run.signal });
  const running = call("http_get", { url: `http://127.0.0.1:${listener.addr.port}/` });
  const connection = await listener.accept();
  run.abort(new Error("cancelled"));
  await assert.rejects(running, /cancelled/);
  connection.close();
});

Deno.test("http_get reports the reason of a failed connection", async () => {
  const { text } = await (await local())("http_get", { url: "http://127.0.0.1:1/" });
  assert.match(text, /127\.0\.0\.1:1 does not respond: connection refused/);
});

Deno.test("http_get checks a certificate for the name in the URL, not for the address", async () => {
  await using folder = await temporaryFolder();
  await Deno.writeTextFile(`${folder.path}/ca.pem`, ca);
  const settings = { HTTP_ALLOWED_HOSTS: ["localhost", "127.0.0.1"] };
  const trusting = await realTools({ settings, ca: `${folder.path}/ca.pem` });
  const distrusting = await realTools({ settings });
  const { cert, key } = await issue({ subject: "CN=web", usage: "server", subjectAltNames: ["localhost"] });
  const server = createServer({ cert, key }, (_request, response) => response.end("secure"));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  try {
    const address = server.address();
    assert.ok(typeof address === "object" && address !== null);
    const good = await trusting("http_get", { url: `https://localhost:${address.port}/` });
    assert.equal(good.ok, true, good.text);
    assert.match(good.text, /secure$/);
    const otherName = await trusting("http_get", { url: `https://127.0.0.1:${address.port}/` });
    assert.equal(otherName.ok, false);
    const untrusted = await distrusting("http_get", { url: `https://localhost:${address.port}/` });
    assert.equal(untrusted.ok, false);
    assert.match(untrusted.text, /does not respond: .*certificate/i);
  } finally {
    await new Promise((resolve) => server.close(resolve));
  }
});
