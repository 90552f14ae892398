import assert from "node:assert/strict";
import { AppError } from "../errors.ts";
import { createMetrics } from "./metrics.ts";

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

Deno.test("counter() with labels has no series before its first event", async () => {
  const metrics = createMetrics();
  metrics.counter("broker_events_total", "Events.", ["outcome"]);
  assert.doesNotMatch(await metrics.text(), /^broker_events_total/m);
});

Deno.test("counter() escapes label values", async () => {
  const metrics = createMetrics();
  metrics.counter("a_total", "A.", ["l"]).inc({ l: '"\\\nx 1' });
  assert.match(await metrics.text(), /^a_total\{l="\\"\\\\\\nx 1"\} 1$/m);
});

Deno.test("gauge() shows what was set, or what is read at the time", async () => {
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

Deno.test("createMetrics() shares nothing between services, and refuses a name twice in one", () => {
  const metrics = createMetrics();
  metrics.counter("a_total", "A.");
  createMetrics().counter("a_total", "A.");
  assert.throws(() => metrics.counter("a_total", "A."), /already been registered/);
});

Deno.test("gauges() shows the values of the moment, and none of before", async () => {
  const metrics = createMetrics();
  let values = [{ labels: { standing: "known" }, value: 2 }, { labels: { standing: "stranger" }, value: 3 }];
  metrics.gauges("connections", "Open connections.", ["standing"], () => values);
  assert.match(
    await metrics.text(),
    /^connections\{standing="known"\} 2\nconnections\{standing="stranger"\} 3$/m,
  );
  values = values.slice(1);
  assert.doesNotMatch(await metrics.text(), /known/);
});

Deno.test("histogram() counts durations by what came of them", async () => {
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
  { name: "what succeeds", step: () => Promise.resolve(1), result: "ok" },
  { name: "a fault with a code", step: () => Promise.reject(new AppError("denied", "no")), result: "denied" },
  { name: "a fault without one", step: () => Promise.reject(new Error("/path")), result: "internal" },
])("measure() counts $name as $result, and passes it on", async ({ step, result }) => {
  const metrics = createMetrics();
  const histogram = metrics.histogram("step_duration_seconds", "Step.", "exchange");
  const [measured] = await Promise.allSettled([histogram.measure<number>(step)]);
  const [expected] = await Promise.allSettled([step()]);
  assert.deepEqual(measured, expected);
  const counts = (await metrics.text()).match(/^step_duration_seconds_count.*$/gm);
  assert.deepEqual(counts, [`step_duration_seconds_count{result="${result}"} 1`]);
});

Deno.test("total() shows what has been counted elsewhere, once for each scrape", async () => {
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
  "a duration of $seconds s is in the bucket up to $bucket, and not in the one before",
  async ({ seconds, bucket }) => {
    const metrics = createMetrics();
    metrics.histogram("a_seconds", "A.", "exchange").observe(seconds);
    const counts = (await metrics.text()).match(/(?<=^a_seconds_bucket\{le=")([^"]+).*$/gm) ?? [];
    const first = counts.find((line) => line.endsWith(" 1")) ?? "";
    assert.equal(first.split('"')[0], bucket);
    assert.equal(counts.length, 15);
  },
);

Deno.test("histogram() refuses a name that is taken, by whatever", () => {
  const metrics = createMetrics();
  metrics.gauge("a_seconds", "A.");
  assert.throws(() => metrics.histogram("a_seconds", "A.", "exchange"), /already been registered/);
  metrics.histogram("b_seconds", "B.", "exchange");
  assert.throws(() => metrics.histogram("b_seconds", "B.", "exchange"), /already been registered/);
});
