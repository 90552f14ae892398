import { type Clock, systemClock } from "@gateway/shared/clock";
import assert from "node:assert/strict";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { loadSettings } from "../../debate/settings/config.ts";
import { ModelError } from "../../debate/engine/ports.ts";
import { openProviders } from "../../debate/models/providers.ts";
import { delta, event, finish } from "../../debate/testing/chat_provider.ts";

/** Pauses before a retry are shorter. Timeouts of unanswered requests are at least as long. */
const BOUND_MS = 5000;

/** Pauses end immediately and advance the time. Timeouts use real time, so that a busy machine does not reach them. */
function impatientClock(): Clock {
  let skippedMs = 0;
  return {
    now: () => systemClock.now() + skippedMs,
    async sleep(ms, signal) {
      if (ms >= BOUND_MS) return await systemClock.sleep(Math.max(ms, 60_000), signal);
      await systemClock.sleep(ms / 100, signal);
      skippedMs += ms;
    },
  };
}

interface Call {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingMessage["headers"];
  readonly body: string;
}

/** Answers a call. `count` starts at 1. */
export type Listener = (call: Call, response: ServerResponse, count: number) => void;

export async function startProvider(listener: Listener) {
  const calls: Call[] = [];
  const closed: string[] = [];
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const chunk of request) body += chunk;
    const call = { method: request.method ?? "", path: request.url ?? "", headers: request.headers, body };
    calls.push(call);
    response.on("close", () => closed.push(call.path));
    listener(call, response, calls.length);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  assert.ok(address !== null && typeof address === "object");
  return {
    url: `http://127.0.0.1:${address.port}`,
    calls,
    closed,
    [Symbol.asyncDispose]: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

/** Providers whose settings use a test server and a temporary home directory. */
export function providersOf(env: Record<string, string>, home = "/nonexistent") {
  const client = Deno.createHttpClient({ poolMaxIdlePerHost: 0 });
  const warnings: string[] = [];
  let ids = 0;
  const providers = openProviders(loadSettings({ env: { HOME: home, ...env }, workingFolder: "/" }), {
    fetch: (input, init) => fetch(input, { ...init, client }),
    clock: impatientClock(),
    random: () => 0,
    newId: () => `id-${++ids}`,
    warn: (message) => warnings.push(message),
  });
  return { providers, warnings, [Symbol.dispose]: () => client.close() };
}

/** The error of a failed call. Its message must not contain tokens or addresses. */
export async function failureOf(promise: Promise<unknown>): Promise<ModelError> {
  const [result] = await Promise.allSettled([promise]);
  assert.equal(result?.status, "rejected");
  assert.ok(result.reason instanceof ModelError, String(result.reason));
  assert.doesNotMatch(result.reason.message, /127\.0\.0\.1|localhost|hub-token|assist-token/);
  return result.reason;
}

const USAGE = event({
  choices: [],
  usage: { prompt_tokens: 7, completion_tokens: 3, total_tokens: 10 },
});
const DONE = "data: [DONE]\n\n";

export function openStream(response: ServerResponse, ...texts: string[]): void {
  response.writeHead(200, { "content-type": "text/event-stream" });
  for (const text of texts) response.write(text);
}

export const answerYes: Listener = (_call, response) => {
  openStream(response, delta("Yes."), finish(), USAGE, DONE);
  response.end();
};
