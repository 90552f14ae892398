import assert from "node:assert/strict";
import { inspect } from "node:util";
import { AppError } from "@gateway/shared/errors";
import { parseJson } from "@gateway/shared/json";
import { createMetrics } from "@gateway/shared/service/metrics";
import { formatLogLine } from "@gateway/shared/service/log";
import { createRedactor } from "@gateway/shared/redact";
import { FakeClock } from "@gateway/shared/testing";
import type { ApprovalRecord } from "@gateway/shared/wire";
import { type ApprovalConfig, controlPlaneConfig } from "../config/config.ts";
import { openMemoryStore } from "../testing/failing_control_store.ts";
import { createNotifier } from "./notifier.ts";
import { HOSTILE_TEXTS } from "./testing/hostile_text.ts";
import { RecordingLogger } from "./testing/recording_logger.ts";
import { APPROVAL_ID, sampleApproval } from "./testing/sample_approval.ts";

const SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const URL_WITH_SECRET = "https://hooks.example/workflows/s3cret-path?sig=s3cret-query";
const REQUIRED = {
  server_cert: "a",
  server_key: "a",
  client_ca: "a",
  audit_log: "a",
  audit_key: "a",
  signer: { url: "https://127.0.0.1:1", client_cert: "a", client_key: "a", ca: "a" },
};

/** The block of the config file with its defaults. */
function approvalConfig(block: Readonly<Record<string, unknown>>): ApprovalConfig {
  const webhook_url = block["notifier"] === "log" ? "" : URL_WITH_SECRET;
  return controlPlaneConfig.parse({ ...REQUIRED, approval: { webhook_url, ...block } }).approval;
}

function scene(config: ApprovalConfig, { secret, status = 200 }: { secret?: string; status?: number } = {}) {
  const clock = new FakeClock();
  const logger = new RecordingLogger();
  const metrics = createMetrics();
  const posts: { readonly body: string; readonly headers: Headers; readonly url: string }[] = [];
  const fetch = (input: string | URL | Request, init: RequestInit = {}) => {
    posts.push({ url: String(input), body: String(init.body), headers: new Headers(init.headers) });
    return Promise.resolve(new Response(null, { status }));
  };
  const redact = createRedactor(undefined);
  const kept = { store: openMemoryStore(), find: () => undefined };
  const notifier = createNotifier({ config, redact, ...kept, fetch, clock, logger, metrics, secret });
  /** Sends a notification, waits, and returns the last posted body. */
  const bodyOf = async (record: ApprovalRecord): Promise<unknown> => {
    notifier.notify(record);
    await clock.advance(0);
    return parseJson(posts.at(-1)?.body ?? "null");
  };
  return { notifier, clock, logger, metrics, posts, bodyOf };
}

const POSTING = [
  { name: "webhook", block: { notifier: "webhook" } },
  { name: "workflow", block: { notifier: "teams", teams_format: "workflow" } },
  { name: "adaptivecard", block: { notifier: "teams", teams_format: "adaptivecard" } },
  { name: "messagecard", block: { notifier: "teams", teams_format: "messagecard" } },
];

Deno.test.each([{ notifier: "log" }, { notifier: "" }, {}])(
  "createNotifier() logs one line for %o and posts nothing",
  async (block) => {
    const { notifier, logger, posts, metrics } = scene(approvalConfig({ ...block, webhook_url: "" }));
    notifier.notify(sampleApproval());
    await notifier.close();
    assert.deepEqual(logger.calls, [{
      level: "info",
      message: `[approval] PENDING id=${APPROVAL_ID} caller=broker-1 user=ada@example.org host=web01 ` +
        'cmd="systemctl restart nginx" elevation=sudo:root rule="require_approval:^systemctl restart"',
      fields: {},
    }]);
    assert.deepEqual(posts, []);
    assert.match(await metrics.text(), /^controlplane_notifications_total\{result="sent"\} 1$/m);
  },
);

Deno.test("createNotifier() posts the whole record to a webhook with its keys in order", async () => {
  const record = sampleApproval({ command: `echo ${"x".repeat(60 * 1024)}`, anomalies: ["new-host:web01"] });
  const { bodyOf } = scene(approvalConfig({ notifier: "webhook" }));
  const body = await bodyOf(record);
  assert.deepEqual(body, record);
  assert.deepEqual(Object.keys(body ?? {}), Object.keys(record));
});

Deno.test("createNotifier() omits absent fields from a webhook's record", async () => {
  const { bodyOf } = scene(approvalConfig({ notifier: "webhook" }));
  const { end_user: _, sudo: _sudo, rule: _rule, ...record } = sampleApproval();
  assert.deepEqual(await bodyOf({ ...record, end_user: undefined }), record);
});

Deno.test.each([
  { name: "is shown whole", head: "a b", bytes: 3, shown: "a b" },
  { name: "goes on", head: "port 80\nhttps://u:hunter2", bytes: 100, shown: "port 80\n" },
  { name: "is one long word", head: "hunter2", bytes: 100, shown: "" },
])("createNotifier() posts no partial secret of a file that $name", async ({ head, bytes, shown }) => {
  const { bodyOf } = scene(approvalConfig({ notifier: "webhook" }));
  const body = await bodyOf(sampleApproval({ content_head: head, content_bytes: bytes }));
  assert.equal((body as Record<string, unknown>)["content_head"], shown);
});

Deno.test.each([
  { format: undefined, type: "message" },
  { format: "", type: "message" },
  { format: "workflow", type: "message" },
  { format: "adaptivecard", type: "message" },
  { format: "messagecard", type: "MessageCard" },
])("createNotifier() posts to Teams in format $format", async ({ format, type }) => {
  const config = approvalConfig({
    notifier: "teams",
    ...(format === undefined ? {} : { teams_format: format }),
  });
  const { bodyOf } = scene(config);
  const body = await bodyOf(sampleApproval()) as Record<string, unknown>;
  assert.equal(body["type"] ?? body["@type"], type);
});

Deno.test.each(["workflow", "messagecard"])(
  "createNotifier() posts a link to the request in format %s",
  async (format) => {
    const block = {
      notifier: "teams",
      teams_format: format,
      approval_url_template: "https://cp.example/{id}",
    };
    const { bodyOf } = scene(approvalConfig(block));
    assert.ok(JSON.stringify(await bodyOf(sampleApproval())).includes(`"https://cp.example/${APPROVAL_ID}"`));
  },
);

Deno.test.each([...POSTING, { name: "log", block: { notifier: "log" } }])(
  "createNotifier() masks secrets in the output of $name, not in the record (A17)",
  async ({ block }) => {
    const { notifier, clock, logger, posts } = scene(approvalConfig(block));
    const command = "DB_PASSWORD=hunter2 ./migrate --token hunter2";
    const record = sampleApproval({
      command,
      rule: "require_approval:--password hunter2",
      sudo_user: "PASSWORD=hunter2",
      anomalies: ["new-command:DB_PASSWORD=hunter2"],
      reason: "the token is TOKEN=hunter2",
      content_head: "-----BEGIN PRIVATE KEY-----\nhunter2\nhttps://u:hunter2",
      content_bytes: 5000,
    });
    notifier.notify(record);
    await clock.advance(0);
    const shown = posts.map(({ body }) => body).join("") +
      logger.calls.map(({ message }) => message).join("");
    assert.ok(shown.includes("REDACTED"));
    assert.ok(!shown.includes("hunter2"));
    assert.equal(record.command, command);
  },
);

Deno.test.each(POSTING)(
  "createNotifier() signs each attempt as $name",
  async ({ block }) => {
    const config = approvalConfig({ ...block, webhook_secret_env: "WEBHOOK_SECRET" });
    const { notifier, clock, posts } = scene(config, { secret: SECRET, status: 503 });
    notifier.notify(sampleApproval());
    await clock.advance(1000);
    const headers = posts.map(({ headers }) => headers);
    assert.deepEqual(headers.map((sent) => sent.get("webhook-id")), [APPROVAL_ID, APPROVAL_ID]);
    assert.deepEqual(headers.map((sent) => sent.get("webhook-timestamp")), ["1767323045", "1767323046"]);
    const [first, second] = headers.map((sent) => sent.get("webhook-signature"));
    assert.match(first ?? "", /^v1,[A-Za-z0-9+/]{43}=$/);
    assert.notEqual(first, second);
    await clock.advance(4000);
  },
);

Deno.test("createNotifier() sends only a webhook-id and no signature without a secret", async () => {
  const { notifier, clock, posts } = scene(approvalConfig({ notifier: "webhook" }));
  notifier.notify(sampleApproval());
  await clock.advance(0);
  const { headers = new Headers() } = posts[0] ?? {};
  assert.deepEqual([...headers.keys()], ["content-type", "webhook-id"]);
  assert.equal(headers.get("webhook-id"), APPROVAL_ID);
});

Deno.test.each([
  { name: "a secret that is not set", secret: undefined, message: /"WEBHOOK_SECRET" .* not set or empty/ },
  { name: "an empty secret", secret: "", message: /"WEBHOOK_SECRET" .* not set or empty/ },
  {
    name: "a malformed secret",
    secret: "whsec_tooshort",
    message: /must be whsec_ followed by base64|must hold/,
  },
])("createNotifier() rejects $name without repeating it", ({ secret, message }) => {
  const config = approvalConfig({ notifier: "webhook", webhook_secret_env: "WEBHOOK_SECRET" });
  assert.throws(() => scene(config, secret === undefined ? {} : { secret }), (error) => {
    assert.ok(error instanceof AppError && error.code === "invalid_config");
    assert.match(error.message, /approval\.webhook_secret_env/);
    assert.match(error.message, message);
    assert.ok(!inspect(error).includes("tooshort"));
    return true;
  });
});

Deno.test.each([
  "",
  "no address",
  "http://hooks.example/s3cret",
  "http://10.0.0.1/s3cret",
  "http://127.0.0.1.evil.example/s3cret",
  "http://localhost.evil.example/s3cret",
  "http://localhost@evil.example/s3cret",
  "http://[::ffff:10.0.0.1]/s3cret",
  "ftp://127.0.0.1/s3cret",
  "file:///s3cret",
  "javascript:s3cret",
])("createNotifier() rejects the URL %o independently of the config's check (A16)", (webhook_url) => {
  for (const { block } of POSTING) {
    const config = { ...approvalConfig(block), webhook_url };
    assert.throws(
      () => scene(config),
      (error) =>
        error instanceof AppError && error.code === "invalid_config" &&
        error.message.includes("approval.webhook_url") && !error.message.includes("s3cret"),
    );
  }
});

Deno.test.each([
  "https://hooks.example/",
  "http://localhost:8080/",
  "http://127.0.0.1:8080/",
  "http://127.9.9.9/",
  "http://[::1]:8080/",
])("createNotifier() posts to %s", async (webhook_url) => {
  const { notifier, posts } = scene(approvalConfig({ notifier: "webhook", webhook_url }));
  notifier.notify(sampleApproval());
  await notifier.close();
  assert.deepEqual(posts.map(({ url }) => url), [webhook_url]);
});

Deno.test.each([...POSTING, { name: "log", block: { notifier: "log" } }])(
  "createNotifier() returns a $name notifier that accepts any record",
  async ({ block }) => {
    const { notifier, clock, metrics } = scene(approvalConfig(block));
    for (const text of HOSTILE_TEXTS) {
      notifier.notify(
        sampleApproval({ caller: text, end_user: text, host: text, command: text, rule: text }),
      );
      await clock.advance(0);
    }
    await notifier.close();
    assert.ok((await metrics.text()).includes(`{result="sent"} ${HOSTILE_TEXTS.length}\n`));
  },
);

Deno.test.each([...POSTING, { name: "log", block: { notifier: "log" } }])(
  "createNotifier() returns a $name notifier that logs its errors and never throws",
  async ({ block }) => {
    const logger = new RecordingLogger();
    const metrics = createMetrics();
    const notifier = createNotifier({
      config: approvalConfig(block),
      redact: () => {
        throw new Error("hunter2");
      },
      store: openMemoryStore(),
      find: () => undefined,
      fetch: () => Promise.reject(new Error("unused")),
      clock: new FakeClock(),
      logger,
      metrics,
      secret: undefined,
    });
    notifier.notify(sampleApproval());
    await notifier.close();
    assert.deepEqual(logger.calls.map(({ level }) => level), ["warn"]);
    assert.ok(!inspect(logger.calls, { depth: 9 }).includes("hunter2"));
    assert.match(await metrics.text(), /^controlplane_notifications_total\{result="failed"\} 1$/m);
  },
);

Deno.test("createNotifier() logs neither the webhook's address nor the secret if posts fail", async () => {
  const config = approvalConfig({ notifier: "webhook", webhook_secret_env: "WEBHOOK_SECRET" });
  const { notifier, logger, metrics } = scene(config, { secret: SECRET, status: 404 });
  notifier.notify(sampleApproval());
  await notifier.close();
  const lines = logger.calls.map((call) =>
    formatLogLine({ timestamp: 0, service: "control-plane", ...call })
  );
  assert.deepEqual(lines, [
    '{"time":"1970-01-01T00:00:00.000Z","level":"warn","service":"control-plane",' +
    `"message":"approval notification failed","approval":"${APPROVAL_ID}","reason":"answered 404"}\n`,
  ]);
  assert.match(await metrics.text(), /^controlplane_notifications_total\{result="failed"\} 1$/m);
  assert.ok(!inspect(notifier, { depth: 9, showHidden: true }).includes(SECRET.slice(6)));
});

Deno.test("createNotifier() counts dropped notifications", async () => {
  const { notifier, metrics } = scene(approvalConfig({ notifier: "webhook" }));
  await notifier.close();
  notifier.notify(sampleApproval());
  assert.match(await metrics.text(), /^controlplane_notifications_total\{result="dropped"\} 1$/m);
});
