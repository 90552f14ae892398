import assert from "node:assert/strict";
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
