import assert from "node:assert/strict";
import { FakeClock } from "@gateway/shared/testing";
import { postJson } from "./outbox.ts";

const URL_WITH_SECRET = new URL("https://hooks.example/workflows/s3cret-path?sig=s3cret-query");

interface Call {
  readonly url: string;
  readonly init: RequestInit;
}

/** A fetch that answers so, and what it was asked. */
function fakeFetch(answer: (init: RequestInit) => Response | Promise<Response>) {
  const calls: Call[] = [];
  const fetch = (input: string | URL | Request, init: RequestInit = {}) => {
    calls.push({ url: String(input), init });
    return Promise.resolve(answer(init));
  };
  return { fetch, calls };
}

function post(
  fetch: typeof globalThis.fetch,
  { clock = new FakeClock(), signal = new AbortController().signal } = {},
) {
  return postJson({ fetch, clock, url: URL_WITH_SECRET, headers: { "webhook-id": "a" }, body: "{}", signal });
}

/** Fails the way the platform does. */
function failedFetch(message: string): never {
  throw new TypeError("fetch failed", { cause: new Error(message) });
}

Deno.test("postJson() posts JSON, with the headers given, and follows no redirect", async () => {
  const { fetch, calls } = fakeFetch(() => new Response(null, { status: 202 }));
  assert.deepEqual(await post(fetch), { kind: "sent" });
  const [{ url, init }] = calls as [Call];
  assert.equal(url, URL_WITH_SECRET.href);
  assert.equal(init.method, "POST");
  assert.equal(init.redirect, "manual");
  assert.equal(init.body, "{}");
  assert.deepEqual(init.headers, { "content-type": "application/json", "webhook-id": "a" });
  assert.equal(calls.length, 1);
});

Deno.test.each([
  { status: 200, kind: "sent" },
  { status: 299, kind: "sent" },
  { status: 301, kind: "failed", mayRetry: false },
  { status: 307, kind: "failed", mayRetry: false },
  { status: 400, kind: "failed", mayRetry: false },
  { status: 410, kind: "failed", mayRetry: false },
  { status: 429, kind: "failed", mayRetry: true },
  { status: 500, kind: "failed", mayRetry: true },
  { status: 503, kind: "failed", mayRetry: true },
])("postJson() takes status $status as $kind", async ({ status, kind, mayRetry }) => {
  const { fetch } = fakeFetch(() =>
    new Response("x", { status, headers: { location: "http://evil.example/" } })
  );
  const attempt = await post(fetch);
  assert.equal(attempt.kind, kind);
  if (attempt.kind === "failed") {
    assert.equal(attempt.mayRetry, mayRetry);
    assert.match(attempt.reason, new RegExp(`^answered ${status}`));
    assert.doesNotMatch(attempt.reason, /evil/);
  }
});

Deno.test("postJson() gives up after 5 seconds, also when nothing heeds the signal", async () => {
  const clock = new FakeClock();
  const { fetch } = fakeFetch(() => new Promise<Response>(() => {}));
  const attempt = post(fetch, { clock });
  await clock.advance(4999);
  assert.equal(clock.sleeping, 1);
  await clock.advance(1);
  assert.deepEqual(await attempt, { kind: "failed", reason: "no answer within 5 seconds", mayRetry: true });
});

Deno.test("postJson() passes on a signal that ends with the attempt's time", async () => {
  const clock = new FakeClock();
  const { fetch, calls } = fakeFetch(() => new Promise<Response>(() => {}));
  const attempt = post(fetch, { clock });
  await clock.advance(5000);
  await attempt;
  assert.equal(calls[0]?.init.signal?.aborted, true);
});

Deno.test("postJson() ends at once when it is told to", async () => {
  const aborter = new AbortController();
  const { fetch } = fakeFetch(() => new Promise<Response>(() => {}));
  const attempt = post(fetch, { signal: aborter.signal });
  aborter.abort();
  assert.equal((await attempt).kind, "failed");
});

Deno.test("postJson() reads at most 4 KiB of an endless answer and cuts it off", async () => {
  let pulled = 0;
  let cancelled = false;
  const body = new ReadableStream<Uint8Array>({
    pull(controller) {
      pulled += 1024;
      controller.enqueue(new Uint8Array(1024));
    },
    cancel: () => void (cancelled = true),
  });
  const { fetch } = fakeFetch(() => new Response(body));
  assert.deepEqual(await post(fetch), { kind: "sent" });
  assert.equal(cancelled, true);
  assert.ok(pulled <= 7 * 1024, String(pulled));
});

Deno.test.each([
  { name: "never ends", body: () => new ReadableStream<Uint8Array>() },
  {
    name: "breaks off",
    body: () =>
      new ReadableStream<Uint8Array>({ pull: (controller) => controller.error(new Error("reset")) }),
  },
])("postJson() counts what was accepted as sent although the answer $name", async ({ body }) => {
  const clock = new FakeClock();
  const { fetch } = fakeFetch(() => new Response(body()));
  const attempt = post(fetch, { clock });
  await clock.advance(5000);
  assert.deepEqual(await attempt, { kind: "sent" });
});

Deno.test.each([
  {
    name: "a refused connection",
    message:
      `error sending request for url (${URL_WITH_SECRET}): client error (Connect): tcp connect error: ` +
      "Connection refused (os error 111)",
    reason: "connection failed: Connection refused (os error 111)",
  },
  {
    name: "a certificate",
    message: `error sending request for url (${URL_WITH_SECRET}): client error (Connect): ` +
      "invalid peer certificate: UnknownIssuer",
    reason: "connection failed: UnknownIssuer",
  },
  {
    name: "nothing but the address",
    message: `error sending request for url (${URL_WITH_SECRET})`,
    reason: "connection failed: TypeError",
  },
])("postJson() tells $name without the address", async ({ message, reason }) => {
  const { fetch } = fakeFetch(() => failedFetch(message));
  assert.deepEqual(await post(fetch), { kind: "failed", reason, mayRetry: true });
});
