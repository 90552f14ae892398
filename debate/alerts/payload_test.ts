import assert from "node:assert/strict";
import { readNotice } from "./payload.ts";
import { ALERTMANAGER, GRAFANA, PAGERDUTY, pagerDuty } from "./testing/payloads.ts";

Deno.test.each([
  {
    name: "Alertmanager",
    body: ALERTMANAGER,
    expected: {
      source: "alertmanager",
      isFiring: true,
      title: "CheckoutMemory: checkout-api runs out of memory",
      severity: "critical",
      since: "2026-03-10T12:51:03.157Z",
    },
    line: "instance: 10.0.0.4:9090",
  },
  {
    name: "Grafana",
    body: GRAFANA,
    expected: {
      source: "grafana",
      isFiring: true,
      title: "High memory usage",
      severity: "",
      since: "2026-03-10T07:51:03.157Z",
    },
    line: "B: 44.23943737541908",
  },
  {
    name: "PagerDuty",
    body: PAGERDUTY,
    expected: {
      source: "pagerduty",
      isFiring: true,
      title: "A little bump in the road",
      severity: "P1",
      since: "2026-03-10T15:16:27.000Z",
    },
    line: "service: API Service",
  },
])("readNotice() reads the webhook of $name", ({ body, expected, line }) => {
  const { key = "", details = "", ...read } = readNotice(body) ?? {};
  assert.deepEqual(read, expected);
  assert.match(key, /^[0-9a-f]{64}$/);
  assert.ok(details.split("\n").includes(line), details);
});

Deno.test.each([
  { name: "another status", a: ALERTMANAGER, b: { ...ALERTMANAGER, status: "resolved" }, same: true },
  { name: "another group", a: ALERTMANAGER, b: { ...ALERTMANAGER, groupKey: "{}:{}" }, same: false },
  { name: "another system", a: GRAFANA, b: { ...ALERTMANAGER, groupKey: "{}:{}" }, same: false },
  {
    name: "fingerprints alone",
    a: { ...GRAFANA, groupKey: "" },
    b: { ...GRAFANA, groupKey: null },
    same: true,
  },
  { name: "another incident", a: PAGERDUTY, b: pagerDuty({ id: "PGR0VU3" }), same: false },
  { name: "a resolved incident", a: PAGERDUTY, b: pagerDuty({ status: "resolved" }), same: true },
])("the key with $name", ({ a, b, same }) => {
  assert.equal(readNotice(a)?.key === readNotice({ ...b })?.key, same);
});

Deno.test.each([
  { name: "no alerts and no event", body: { text: "hello" }, problem: /neither alerts/ },
  { name: "another version", body: { ...ALERTMANAGER, version: "3" }, problem: /version is not "4"/ },
  { name: "another status", body: { ...GRAFANA, status: "" }, problem: /status is not/ },
  { name: "no key", body: { ...GRAFANA, groupKey: "", alerts: [{}] }, problem: /neither groupKey/ },
  { name: "a list without alerts", body: { ...GRAFANA, alerts: ["x"] }, problem: /alerts contains no alert/ },
  { name: "no incident ID", body: pagerDuty({ id: "" }), problem: /event\.data\.id/ },
  { name: "an unknown incident status", body: pagerDuty({ status: "gone" }), problem: /event\.data\.status/ },
])("readNotice() rejects $name", ({ body, problem }) => {
  assert.throws(() => readNotice({ ...body }), { code: "unprocessable", message: problem });
});

Deno.test("readNotice() ignores events of PagerDuty that change no incident", () => {
  for (const type of ["incident_note", "service", "ping"]) {
    assert.equal(readNotice({ ...pagerDuty({ type }) }), undefined);
  }
});

Deno.test("a value cannot look like another name, and alerts, labels and values are bounded", () => {
  const labels = {
    job: "x\nseverity: none",
    ...Object.fromEntries(Array.from({ length: 100 }, (_, index) => [`label_${index}`, "y ".repeat(3000)])),
  };
  const [alert] = ALERTMANAGER.alerts;
  const { details = "" } = readNotice({ ...ALERTMANAGER, alerts: Array(30).fill({ ...alert, labels }) }) ??
    {};
  const lines = details.split("\n");
  assert.ok(lines.includes("job: x severity: none"));
  assert.equal(lines.at(-1), "10 more alerts omitted");
  assert.equal(lines.filter((line) => line.startsWith("label_")).length, 20 * 63);
  assert.ok(lines.every((line) => line.length < 2100));
  // Secrets are masked later, so a value is cut between words only.
  const secret = "token=sk-0123456789abcdef";
  const { details: spaced = "" } = readNotice({
    ...ALERTMANAGER,
    alerts: [{ ...alert, labels: { job: `x${" ".repeat(3985)}${secret}` } }],
  }) ?? {};
  assert.ok(spaced.includes(`job: x ${secret}`));
});
