import assert from "node:assert/strict";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { type Clock, systemClock } from "@gateway/shared/clock";
import type { ApprovalConfig, NotifierName } from "@gateway/control-plane/config";
import { createMetrics } from "@gateway/shared/service/metrics";
import type { Metrics } from "@gateway/shared/service";
import { createRedactor } from "@gateway/shared/redact";
import { FakeClock } from "@gateway/shared/testing";
import { openMemoryStore } from "../../control_plane/testing/failing_control_store.ts";
import { createNotifier, createWebhookSigner, type Notifier } from "../../control_plane/notify/notifier.ts";
import { RecordingLogger } from "../../control_plane/notify/testing/recording_logger.ts";
import { APPROVAL_ID, sampleApproval } from "../../control_plane/notify/testing/sample_approval.ts";
import { poll } from "../stage/poll.ts";

const SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

type Behaviour = (request: IncomingMessage, response: ServerResponse) => void;

interface Received {
  readonly path: string;
  readonly headers: IncomingMessage["headers"];
  readonly body: string;
}

interface Receiver extends AsyncDisposable {
  readonly url: string;
  readonly requests: readonly Received[];
  readonly connections: () => Promise<number>;
}

/** A receiver of webhooks that reads each request completely and then runs `behave`. */
async function startReceiver(behave: Behaviour): Promise<Receiver> {
  const requests: Received[] = [];
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const chunk of request) body += chunk;
    requests.push({ path: request.url ?? "", headers: request.headers, body });
    behave(request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  assert.ok(address !== null && typeof address === "object");
  return {
    url: `http://127.0.0.1:${address.port}/hook/s3cret-path?sig=s3cret-query`,
    requests,
    connections: () =>
      new Promise((resolve, reject) =>
        server.getConnections((error, count) => error === null ? resolve(count) : reject(error))
      ),
    async [Symbol.asyncDispose]() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      server.closeAllConnections();
      await closed;
    },
  };
}

interface Scene {
  readonly notifier: Notifier;
  readonly logger: RecordingLogger;
  readonly results: () => Promise<Readonly<Record<string, number>>>;
}

function notifierFor(
  webhook_url: string,
  { clock, notifier = "webhook" }: { clock: Clock; notifier?: NotifierName },
): Scene {
  const config: ApprovalConfig = {
    notifier,
    webhook_url,
    webhook_secret_env: "WEBHOOK_SECRET",
    timeout_seconds: 120,
    callers: ["approver-1"],
    teams_format: "workflow",
    approval_url_template: "",
    max_pending_per_caller: 100,
  };
  const logger = new RecordingLogger();
  const metrics = createMetrics();
  const redact = createRedactor(undefined);
  const kept = { store: openMemoryStore(), find: () => undefined };
  return {
    notifier: createNotifier({ config, redact, ...kept, fetch, clock, logger, metrics, secret: SECRET }),
    logger,
    results: () => readResults(metrics),
  };
}

async function readResults(metrics: Metrics): Promise<Readonly<Record<string, number>>> {
  const series = (await metrics.text()).matchAll(
    /^controlplane_notifications_total\{result="(\w+)"\} (\d+)$/gm,
  );
  return Object.fromEntries([...series].map(([, result = "", count]) => [result, Number(count)]));
}

async function waitFor(what: string, isDone: () => boolean | Promise<boolean>): Promise<void> {
  await poll(isDone, { what });
}

/** Timeouts use real time. Pauses between attempts are recorded and skipped. */
function impatientClock(): Clock & { readonly pauses: readonly number[] } {
  const pauses: number[] = [];
  return {
    pauses,
    now: () => new FakeClock().now(),
    sleep(ms, signal) {
      if (ms >= 5000) return systemClock.sleep(ms, signal);
      pauses.push(ms);
      return Promise.resolve();
    },
  };
}

/** Logs must not contain the receiver's address. */
function assertNoAddress({ logger }: Scene): void {
  assert.doesNotMatch(JSON.stringify(logger.calls), /s3cret|127\.0\.0\.1|whsec/);
}

Deno.test("notifier: a webhook receives the record, with a signature over the received bytes", async () => {
  await using receiver = await startReceiver((_request, response) => response.writeHead(204).end());
  const clock = new FakeClock();
  const scene = notifierFor(receiver.url, { clock });
  const record = sampleApproval({ command: `printf '${"ü🙂".repeat(8000)}'` });
  scene.notifier.notify(record);
  await waitFor("the result", async () => (await scene.results())["sent"] === 1);
  const [received] = receiver.requests;
  assert.ok(received !== undefined && receiver.requests.length === 1);
  assert.deepEqual(JSON.parse(received.body), record);
  assert.equal(received.path, "/hook/s3cret-path?sig=s3cret-query");
  assert.equal(received.headers["content-type"], "application/json");
  const expected = createWebhookSigner(SECRET)({ id: APPROVAL_ID, sentAt: clock.now(), body: received.body });
  assert.deepEqual(
    Object.fromEntries(Object.keys(expected).map((name) => [name, received.headers[name]])),
    expected,
  );
  await scene.notifier.close();
  assert.deepEqual(scene.logger.calls, []);
});

Deno.test("notifier: a receiver that hangs costs 5 seconds per attempt and no open connection", async () => {
  await using receiver = await startReceiver(() => {});
  const clock = new FakeClock();
  const scene = notifierFor(receiver.url, { clock });
  scene.notifier.notify(sampleApproval());
  for (const [attempts, pauseMs] of [[1, 1000], [2, 4000], [3, 0]] as const) {
    await waitFor(`attempt ${attempts}`, () => receiver.requests.length === attempts);
    await clock.advance(5000);
    await clock.advance(pauseMs);
  }
  await waitFor("the result", async () => (await scene.results())["failed"] === 1);
  await waitFor("the end of all connections", async () => await receiver.connections() === 0);
  assert.equal(receiver.requests.length, 3);
  assert.deepEqual(scene.logger.calls.map(({ fields }) => fields), [
    { approval: APPROVAL_ID, reason: "no answer within 5 seconds" },
  ]);
  await scene.notifier.close();
});

Deno.test("notifier: an unreachable receiver is logged without its address", async () => {
  const receiver = await startReceiver(() => {});
  await receiver[Symbol.asyncDispose]();
  const scene = notifierFor(receiver.url, { clock: impatientClock() });
  scene.notifier.notify(sampleApproval());
  await waitFor("the result", async () => (await scene.results())["failed"] === 1);
  assert.match(String(scene.logger.calls[0]?.fields["reason"]), /^connection failed: Connection refused/);
  assertNoAddress(scene);
  await scene.notifier.close();
});
