import assert from "node:assert/strict";
import { AppError } from "../errors.ts";
import {
  currentRequestId,
  exitCodeOf,
  inRequest,
  type LogFields,
  outgoingHeaders,
  outsideRequests,
  parseServiceArguments,
} from "./mod.ts";
import fc from "fast-check";
import { anyCharacter } from "@gateway/shared/testing";
import { formatLogLine, formatLogText, getServiceLogger } from "./log.ts";
import { createMetrics } from "./metrics.ts";

const DEFAULTS = { config: "signer.json", logFormat: "auto", version: false, verbose: false, help: false };

Deno.test.each([
  { args: [], expected: {} },
  { args: ["--config", "a.json"], expected: { config: "a.json" } },
  { args: ["--config=a.json"], expected: { config: "a.json" } },
  { args: ["-config", "a.json"], expected: { config: "a.json" } },
  { args: ["-config=a.json"], expected: { config: "a.json" } },
  { args: ["--config=a=b"], expected: { config: "a=b" } },
  { args: ["--config", "-"], expected: { config: "-" } },
  { args: ["-config", "a", "--config=b"], expected: { config: "b" } },
  { args: ["--version"], expected: { version: true } },
  { args: ["-version", "-verbose"], expected: { version: true, verbose: true } },
  { args: ["--version=false"], expected: {} },
  { args: ["--log-format", "text"], expected: { logFormat: "text" } },
  { args: ["--log-format=json"], expected: { logFormat: "json" } },
  { args: ["-h"], expected: { help: true } },
  { args: ["--help"], expected: { help: true } },
  { args: ["--version", "-config", "a"], expected: { version: true, config: "a" } },
])("parseServiceArguments() reads $args", ({ args, expected }) => {
  const options = parseServiceArguments(args, { defaultConfig: "signer.json" });
  assert.deepEqual(options, { ...DEFAULTS, ...expected });
});

Deno.test.each([
  {
    args: ["--confg", "a.json"],
    message: /^Unknown argument "--confg": expected --config <file>, --log-format <format>, --version/,
  },
  { args: ["a.json"], message: /^Unknown argument "a.json"/ },
  { args: ["--config", "a.json", "b.json"], message: /^Unknown argument "b.json"/ },
  { args: ["---config", "a"], message: /^Unknown argument/ },
  { args: ["--"], message: /^Unknown argument/ },
  { args: [""], message: /^Unknown argument ""/ },
  { args: ["--constructor"], message: /^Unknown argument/ },
  { args: ["--config"], message: /^Option --config needs/ },
  { args: ["--config="], message: /^Option --config needs/ },
  { args: ["--log-format", "yaml"], message: /^Cannot use --log-format "yaml": expected auto, text, json/ },
  { args: ["--log-format"], message: /^Cannot use --log-format ""/ },
  { args: ["--version=yes"], message: /^Cannot use "--version=yes"/ },
])("parseServiceArguments() rejects $args", ({ args, message }) => {
  const parse = () => parseServiceArguments(args, { defaultConfig: "signer.json" });
  assert.throws(parse, { name: "AppError", code: "invalid_request", message });
});

const failing = (error: Error) => () => {
  throw error;
};
const LOADING = new AppError("invalid_config", "Cannot load", { cause: new Error("secret") });

Deno.test.each<[code: number, name: string, run: () => number | void, told: RegExp]>([
  [0, "no failure", () => {}, /^$/],
  [3, "a code of its own", () => 3, /^$/],
  [2, "a wrong command line", failing(new AppError("invalid_request", "Bad option")), /^Bad option\n$/],
  [1, "a broken config", failing(LOADING), /^Cannot load\n$/],
  [1, "a defect", failing(new TypeError("no x")), /^Unexpected failure: TypeError: no x\n/],
])("exitCodeOf() returns %d for %s", async (code, _name, run, told) => {
  let text = "";
  assert.equal(await exitCodeOf(() => Promise.try(run), (more) => text += more), code);
  assert.match(text, told);
});

const format = (message: string, fields: LogFields = {}) =>
  formatLogLine({ timestamp: 0, level: "info", service: "signer", message, fields });

Deno.test("formatLogLine() returns one line of JSON without control characters for any input", () => {
  fc.assert(
    fc.property(
      fc.string({ unit: anyCharacter(fc) }),
      fc.dictionary(fc.string(), fc.anything()),
      (message, fields) => {
        const line = format(message, fields);
        // deno-lint-ignore no-control-regex -- that none is left is what must hold
        assert.match(line, /^[^\u0000-\u001f\u007f-\u009f\u2028\u2029]*\n$/);
        assert.equal(JSON.parse(line).message, message);
      },
    ),
  );
});

Deno.test("formatLogText() returns one line without control characters for any input", () => {
  const line = (message: string, fields: LogFields, hasColor = false) =>
    formatLogText({ timestamp: 0, level: "info", service: "signer", message, fields }, { hasColor });
  fc.assert(
    fc.property(
      fc.string({ unit: anyCharacter(fc) }),
      fc.dictionary(fc.string({ unit: anyCharacter(fc) }), fc.anything()),
      (message, fields) => {
        assert.match(line(message, fields), /^[^\p{Cc}\u2028\u2029\u202e]*\n$/u);
      },
    ),
  );
  const error = new AppError("upstream_failure", "no answer", { cause: new Error("reset\x1b[2J") });
  const fields = { listen: "127.0.0.1:9443", user: "ann level=error", hosts: 2, none: undefined, error };
  assert.equal(
    line("signer ready", fields),
    '1970-01-01T00:00:00.000Z info    signer ready listen=127.0.0.1:9443 user="ann level=error" hosts=2 ' +
      'error="no answer: reset\\u001b[2J"\n',
  );
  assert.ok(line("x", { a: 1 }, true).endsWith("\x1b[36minfo   \x1b[0m x \x1b[2ma=\x1b[0m1\n"));
});

Deno.test("formatLogLine() keeps time, level, service and message if a field has the same name", () => {
  const own = { level: "info", service: "signer", message: "denied" };
  const line = format("denied", { level: "debug", message: "issued", time: "never", service: "x", a: 1 });
  assert.deepEqual(JSON.parse(line), { time: "1970-01-01T00:00:00.000Z", ...own, a: 1 });
});

Deno.test("formatLogLine() includes errors with their causes, and stacks only for defects", () => {
  const cause = new TypeError("reset");
  const error = new AppError("upstream_failure", "Failed contacting the signer", { cause });
  const { error: written } = JSON.parse(format("request failed", { error }));
  assert.equal(written.code, "upstream_failure");
  assert.equal(written.stack, undefined);
  assert.equal(written.cause.message, "reset");
  assert.match(written.cause.stack, /^TypeError: reset/);
});

Deno.test("formatLogLine() includes the root cause's address behind six wrapped errors", () => {
  let error = new Error("connect ECONNREFUSED 10.0.0.5:9443");
  for (let step = 0; step < 6; step++) {
    error = new AppError("upstream_failure", `step ${step}`, { cause: error });
  }
  assert.match(format("Tool call failed", { error }), /10\.0\.0\.5:9443/);
});

Deno.test("formatLogLine() handles circular causes, circular values and throwing members", () => {
  const error = new Error("a");
  error.cause = error;
  assert.ok(JSON.parse(format("x", { error })));
  const circle: Record<string, unknown> = {};
  circle["self"] = circle;
  for (const value of [circle, { toJSON: failing(new Error("no")) }]) {
    assert.equal(JSON.parse(format("x", { value })).fields, "not representable as JSON");
  }
});

Deno.test("getServiceLogger() returns a silent logger before logging is configured", () => {
  const logger = getServiceLogger("signer");
  logger.info("{not} a template");
  logger.warn("a", { a: 1n });
  logger.error("a", { error: new Error("x") });
});

Deno.test("text() is sorted by name, then by label, with help and type", async () => {
  const metrics = createMetrics();
  const outcomes = metrics.counter("signer_sign_requests_total", "Sign requests.", ["outcome"]);
  metrics.counter("audit_blocked_total", "Blocked.");
  outcomes.inc({ outcome: "issued" });
  outcomes.inc({ outcome: "denied" }, 2);
  assert.equal(
    await metrics.text(),
    `# HELP audit_blocked_total Blocked.
# TYPE audit_blocked_total counter
audit_blocked_total 0
# HELP signer_sign_requests_total Sign requests.
# TYPE signer_sign_requests_total counter
signer_sign_requests_total{outcome="denied"} 2
signer_sign_requests_total{outcome="issued"} 1
`,
  );
  assert.equal(metrics.contentType, "text/plain; version=0.0.4; charset=utf-8");
});

Deno.test("counter() with labels exports no series before the first event", async () => {
  const metrics = createMetrics();
  metrics.counter("broker_events_total", "Events.", ["outcome"]);
  assert.doesNotMatch(await metrics.text(), /^broker_events_total/m);
});

Deno.test("counter() escapes label values", async () => {
  const metrics = createMetrics();
  metrics.counter("a_total", "A.", ["l"]).inc({ l: '"\\\nx 1' });
  assert.match(await metrics.text(), /^a_total\{l="\\"\\\\\\nx 1"\} 1$/m);
});

Deno.test("gauge() exports the value that was set or that its callback returns", async () => {
  const metrics = createMetrics();
  let sessions = 1;
  metrics.gauge("broker_sessions_active", "Open sessions.", () => sessions);
  const time = metrics.gauge("last_poll", "Last poll.");
  time.set(5);
  sessions = 3;
  const text = await metrics.text();
  assert.match(text, /^broker_sessions_active 3$/m);
  assert.match(text, /^last_poll 5$/m);
});

Deno.test("createMetrics() keeps services separate and rejects a duplicate name within one", () => {
  const metrics = createMetrics();
  metrics.counter("a_total", "A.");
  createMetrics().counter("a_total", "A.");
  assert.throws(() => metrics.counter("a_total", "A."), /already been registered/);
});

Deno.test("gauges() exports only the current values", async () => {
  const metrics = createMetrics();
  let values = [{ labels: { peer: "authenticated" }, value: 2 }, {
    labels: { peer: "unauthenticated" },
    value: 3,
  }];
  metrics.gauges("connections", "Open connections.", ["peer"], () => values);
  assert.match(
    await metrics.text(),
    /^connections\{peer="authenticated"\} 2\nconnections\{peer="unauthenticated"\} 3$/m,
  );
  values = values.slice(1);
  assert.doesNotMatch(await metrics.text(), /known/);
});

Deno.test("histogram() counts durations by result", async () => {
  const metrics = createMetrics();
  const signing = metrics.histogram("sign_duration_seconds", "Signing.", "exchange");
  assert.doesNotMatch(await metrics.text(), /^sign_duration_seconds/m);
  signing.observe(0.02);
  signing.observe(7, "denied");
  signing.start()("denied");
  const text = await metrics.text();
  assert.match(text, /^# TYPE sign_duration_seconds histogram$/m);
  assert.match(text, /^sign_duration_seconds_bucket\{le="0.01",result="ok"\} 0$/m);
  assert.match(text, /^sign_duration_seconds_bucket\{le="0.025",result="ok"\} 1$/m);
  assert.match(text, /^sign_duration_seconds_bucket\{le="\+Inf",result="denied"\} 2$/m);
  assert.match(text, /^sign_duration_seconds_count\{result="denied"\} 2$/m);
  assert.match(text, /^sign_duration_seconds_sum\{result="ok"\} 0.02$/m);
});

Deno.test.each([
  { name: "a successful step", step: () => Promise.resolve(1), result: "ok" },
  { name: "a fault with a code", step: () => Promise.reject(new AppError("denied", "no")), result: "denied" },
  { name: "a fault without one", step: () => Promise.reject(new Error("/path")), result: "internal" },
])("measure() counts $name as $result and passes it on", async ({ step, result }) => {
  const metrics = createMetrics();
  const histogram = metrics.histogram("step_duration_seconds", "Step.", "exchange");
  const [measured] = await Promise.allSettled([histogram.measure<number>(step)]);
  const [expected] = await Promise.allSettled([step()]);
  assert.deepEqual(measured, expected);
  const counts = (await metrics.text()).match(/^step_duration_seconds_count.*$/gm);
  assert.deepEqual(counts, [`step_duration_seconds_count{result="${result}"} 1`]);
});

Deno.test("total() exports the value of an external counter on each scrape", async () => {
  const metrics = createMetrics();
  let seconds = 1.5;
  metrics.total("process_cpu_seconds_total", "CPU.", () => seconds);
  assert.match(await metrics.text(), /^process_cpu_seconds_total 1.5$/m);
  seconds = 2;
  assert.match(
    await metrics.text(),
    /^# TYPE process_cpu_seconds_total counter\nprocess_cpu_seconds_total 2$/m,
  );
});

Deno.test.each([
  { seconds: 0, bucket: "0.001" },
  { seconds: 0.001, bucket: "0.001" },
  { seconds: 0.001_000_1, bucket: "0.0025" },
  { seconds: 30, bucket: "30" },
  { seconds: 31, bucket: "+Inf" },
])(
  "a duration of $seconds s is counted from bucket $bucket on and not in the bucket below",
  async ({ seconds, bucket }) => {
    const metrics = createMetrics();
    metrics.histogram("a_seconds", "A.", "exchange").observe(seconds);
    const counts = (await metrics.text()).match(/(?<=^a_seconds_bucket\{le=")([^"]+).*$/gm) ?? [];
    const first = counts.find((line) => line.endsWith(" 1")) ?? "";
    assert.equal(first.split('"')[0], bucket);
    assert.equal(counts.length, 15);
  },
);

Deno.test("histogram() rejects a name that another metric uses", () => {
  const metrics = createMetrics();
  metrics.gauge("a_seconds", "A.");
  assert.throws(() => metrics.histogram("a_seconds", "A.", "exchange"), /already been registered/);
  metrics.histogram("b_seconds", "B.", "exchange");
  assert.throws(() => metrics.histogram("b_seconds", "B.", "exchange"), /already been registered/);
});

const NEW_ID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

Deno.test.each([
  { name: "a UUID", id: "5f0f9a3e-7f0c-4f8e-9c4e-0a1b2c3d4e5f" },
  { name: "letters, digits, dot, dash and underscore", id: "Job_7.retry-2" },
  { name: "64 characters", id: "a".repeat(64) },
])("inRequest() keeps a request ID of $name", async ({ id }) => {
  await inRequest({ name: "POST", id }, (given) => {
    assert.deepEqual([given, currentRequestId(), outgoingHeaders()["x-request-id"]], [id, id, id]);
    return Promise.resolve();
  });
});

Deno.test.each([
  { name: "no id", id: undefined },
  { name: "an empty id", id: "" },
  { name: "65 characters", id: "a".repeat(65) },
  { name: "a space, which would start another field of a record", id: "a cmd=ls" },
  { name: "a line break", id: "a\nb" },
  { name: "another line behind it", id: "a\n" },
  { name: "a letter that is not ASCII", id: "é" },
  { name: "an equals sign", id: "rid=1" },
  { name: "several values", id: ["a", "b"] },
])("inRequest() creates a new request ID for $name", async ({ id }) => {
  await inRequest({ name: "POST", id }, (given) => {
    assert.match(given, NEW_ID);
    return Promise.resolve();
  });
});

Deno.test.each([
  { name: "passes a trace context on", trace: { traceparent: TRACEPARENT, tracestate: "a=1,b=2" } },
  { name: "passes one without state on", trace: { traceparent: TRACEPARENT } },
  { name: "passes no state on without its parent", trace: { tracestate: "a=1" }, passed: {} },
  {
    name: "drops a tracestate that could start another header",
    trace: { traceparent: TRACEPARENT, tracestate: "a=1\r\nx: y" },
    passed: { traceparent: TRACEPARENT },
  },
  {
    name: "drops a tracestate that is longer than 512 characters",
    trace: { traceparent: TRACEPARENT, tracestate: "a".repeat(513) },
    passed: { traceparent: TRACEPARENT },
  },
  {
    name: "drops a traceparent with a zero trace ID",
    trace: { traceparent: `00-${"0".repeat(32)}-b7ad6b7169203331-01` },
    passed: {},
  },
  { name: "passes no capital letters on", trace: { traceparent: TRACEPARENT.toUpperCase() }, passed: {} },
  { name: "passes no version ff on", trace: { traceparent: `ff${TRACEPARENT.slice(2)}` }, passed: {} },
])("inRequest() $name", async ({ trace, passed = trace }) => {
  await inRequest({ name: "POST", id: "r", ...trace }, () => {
    assert.deepEqual(outgoingHeaders(), { ...passed, "x-request-id": "r" });
    return Promise.resolve();
  });
});

Deno.test("inRequest() separates concurrent requests", async () => {
  const seen = await Promise.all(["a", "b", "c"].map((id) =>
    inRequest({ name: "POST", id }, async () => {
      await Promise.resolve();
      return currentRequestId();
    })
  ));
  assert.deepEqual(seen, ["a", "b", "c"]);
  assert.deepEqual([currentRequestId(), outgoingHeaders()], [undefined, {}]);
});

Deno.test("outsideRequests() runs a task without the request ID and keeps the request's own ID", async () => {
  await inRequest({ name: "POST", id: "a" }, async () => {
    const later = outsideRequests(async () => {
      await Promise.resolve();
      return [currentRequestId(), outgoingHeaders()];
    });
    assert.equal(currentRequestId(), "a");
    assert.deepEqual(await later, [undefined, {}]);
  });
});
