import assert from "node:assert/strict";
import { call, jsonAnswer, setUpBackend } from "./testing/tool_bench.ts";

Deno.test("query_prometheus shows 25 series as labels => value", async () => {
  const { ports, tool } = setUpBackend("query_prometheus", "PROMETHEUS_URL", "http://back.test");
  const series = Array.from(
    { length: 30 },
    (_, at) => ({ metric: { __name__: "up", job: `j${at}"` }, value: [1, String(at)] }),
  );
  ports.answer = () =>
    jsonAnswer({ status: "success", data: { resultType: "vector", result: series }, warnings: ["slow"] });
  const { text } = await call(tool, { query: 'up{a="b&c"}' });
  assert.equal(ports.requests[0]?.url.searchParams.get("query"), 'up{a="b&c"}');
  const lines = text.split("\n");
  assert.equal(lines[1], 'up{job="j0\\""} => 0');
  assert.equal(lines.filter((line) => line.includes(" => ")).length, 25);
  assert.deepEqual(lines.slice(-2), ["(5 more, not shown: aggregate or filter)", "warning: slow"]);
});

Deno.test.each([
  { name: "a scalar", data: { resultType: "scalar", result: [1, "4"] }, line: "4" },
  { name: "a string", data: { resultType: "string", result: [1, "x"] }, line: "x" },
  {
    name: "a matrix",
    data: { resultType: "matrix", result: [{ metric: {}, values: [[1, "2"], [3, "4"]] }] },
    line:
      "{} => min 2 at 1970-01-01T00:00:01Z, max 4 at 1970-01-01T00:00:03Z, last 4 at 1970-01-01T00:00:03Z (2 points)",
  },
  {
    name: "a histogram",
    data: { resultType: "vector", result: [{ metric: {}, histogram: [] }] },
    line: "{} => (histogram)",
  },
  { name: "an empty result", data: { resultType: "vector", result: [] }, line: "(no series)" },
])("query_prometheus shows $name", async ({ data, line }) => {
  const { ports, tool } = setUpBackend("query_prometheus", "PROMETHEUS_URL", "http://back.test");
  ports.answer = () => jsonAnswer({ data });
  assert.equal((await call(tool, { query: "x" })).text.split("\n")[1], line);
});

Deno.test.each([
  { name: "the last hour", args: { step: "1m" }, sent: ["02:04:05Z", "03:04:05Z", "60s"] },
  { name: "a start before now", args: { start: "now-6h" }, sent: ["21:04:05Z", "03:04:05Z", "300s"] },
  {
    name: "times without a zone as UTC",
    args: { start: "2026-01-02T01:00:00", end: "2026-01-02T02:00:00Z" },
    sent: ["01:00:00Z", "02:00:00Z", "60s"],
  },
  { name: "the hour before an end", args: { end: "30m" }, sent: ["01:34:05Z", "02:34:05Z", "60s"] },
  { name: "at most 120 points", args: { start: "1d", step: "1s" }, sent: ["03:04:05Z", "03:04:05Z", "727s"] },
])("query_prometheus queries $name", async ({ args, sent }) => {
  const { ports, tool } = setUpBackend("query_prometheus", "PROMETHEUS_URL", "http://back.test");
  ports.answer = () => jsonAnswer({ data: { resultType: "matrix", result: [] } });
  const { ok, text } = await call(tool, { query: "up", ...args });
  assert.equal(ok, true, text);
  const url = ports.requests[0]!.url;
  assert.equal(url.pathname, "/api/v1/query_range");
  const { start, end, step } = Object.fromEntries(url.searchParams);
  assert.deepEqual([start?.slice(11), end?.slice(11), step], sent);
});

Deno.test.each([
  {
    name: "an unknown time",
    args: { start: "yesterday" },
    why: /start "yesterday" is not ISO 8601 or a duration/,
  },
  { name: "an end before its start", args: { start: "1h", end: "2h" }, why: /start must be before end/ },
  { name: "an unknown step", args: { step: "a" }, why: /step "a" is not a duration/ },
])("query_prometheus rejects $name", async ({ args, why }) => {
  const { ports, tool } = setUpBackend("query_prometheus", "PROMETHEUS_URL", "http://back.test");
  const { ok, text } = await call(tool, { query: "up", ...args });
  assert.deepEqual([ok, ports.requests], [false, []]);
  assert.match(text, why);
});

Deno.test("query_prometheus shows minimum, maximum and some points, and charts all of them", async () => {
  const { ports, tool } = setUpBackend("query_prometheus", "PROMETHEUS_URL", "http://back.test");
  const values = Array.from({ length: 100 }, (_, at) => [at, at === 7 ? "NaN" : String(at % 50)]);
  const result = ["a", "b"].map((pod) => ({ metric: { __name__: "m", job: "hunter2", pod }, values }));
  ports.answer = () => jsonAnswer({ data: { resultType: "matrix", result } });
  const { text, chart } = await call(tool, { query: "m", step: "1s" });
  const lines = text.split("\n");
  assert.equal(lines.length, 1 + 2 * (1 + 20));
  assert.equal(
    lines[1],
    'm{job="[REDACTED]", pod="a"} => min 0 at 1970-01-01T00:00:00Z, max 49 at 1970-01-01T00:01:39Z, ' +
      "last 49 at 1970-01-01T00:01:39Z (100 points)",
  );
  assert.deepEqual([lines[2], lines[21]], ["  1970-01-01T00:00:00Z 0", "  1970-01-01T00:01:39Z 49"]);
  assert.deepEqual(chart?.series.map(({ label, points }) => [label, points.length]), [
    ['{pod="a"}', 99],
    ['{pod="b"}', 99],
  ]);
});

Deno.test("query_prometheus charts 8 of many series in linear time", async () => {
  const { ports, tool } = setUpBackend("query_prometheus", "PROMETHEUS_URL", "http://back.test");
  const result = Array.from(
    { length: 40_000 },
    (_, at) => ({ metric: { job: "a", at: `${at}` }, values: [[at, "1"]] }),
  );
  ports.answer = () => jsonAnswer({ data: { resultType: "matrix", result } });
  const started = performance.now();
  const { chart } = await call(tool, { query: "m[1m]" });
  assert.equal(chart?.series.length, 8);
  assert.ok(performance.now() - started < 5000);
});

const MANY = Array.from(
  { length: 217 },
  (_, at) => `${at < 150 ? "node" : "process"}_metric_with_a_name_${at}`,
);

Deno.test.each([
  {
    name: "all metrics, as far as there is room",
    args: { what: "metrics", match: '{job="api"}' },
    asked: '/api/v1/label/__name__/values?match[]={job="api"}',
    data: MANY,
    lines:
      /^Prometheus metrics \{job="api"\}: 217 .*\nnode_metric_with_a_name_0\n[^(]*\(\d+ more, not shown: node_\* \d+, process_\* \d+\. Use search/s,
  },
  {
    name: "metrics with a text",
    args: { what: "metrics", search: "METRIC_with_a_name_21" },
    asked: "/api/v1/label/__name__/values",
    data: MANY,
    lines: /: 8 .*\nnode_metric_with_a_name_21\n(?:process_metric_with_a_name_21\d\n?){7}$/s,
  },
  { name: "labels", args: { what: "labels" }, asked: "/api/v1/labels", data: ["job"], lines: /: 1 .*\njob$/ },
  {
    name: "the values of a label",
    args: { what: "labels", label: "job" },
    asked: "/api/v1/label/job/values",
    data: ["api\x1b[2J\n", "hunter2"],
    lines: /labels job: 2 .*\napi \n\[REDACTED\]$/,
  },
  {
    name: "no values",
    args: { what: "labels", label: "a" },
    asked: "/api/v1/label/a/values",
    data: [],
    lines: /\n\(nothing\)$/,
  },
  {
    name: "alerts",
    args: { what: "alerts" },
    asked: "/api/v1/alerts",
    data: {
      alerts: [
        {
          labels: { alertname: "Slow", job: "api" },
          state: "firing",
          activeAt: "2026-01-02T03:00:00Z",
          annotations: { summary: "p99 is 3 s" },
        },
        { labels: {}, state: "pending" },
      ],
    },
    lines:
      /\nSlow\{job="api"\} firing since 2026-01-02T03:00:00Z: p99 is 3 s\n\{\} pending since an unknown time: no summary$/,
  },
  {
    name: "rules",
    args: { what: "rules" },
    asked: "/api/v1/rules",
    data: {
      groups: [{
        rules: [
          { type: "alerting", name: "Slow", query: "a >\n 1", state: "firing" },
          { type: "recording", name: "a:b", query: "sum(a)", lastError: "bad" },
        ],
      }],
    },
    lines: /\nSlow \(firing\): a > 1\na:b \(recording\): sum\(a\) \(error: bad\)$/,
  },
])("list_prometheus shows $name", async ({ args, asked, data, lines }) => {
  const { ports, tool } = setUpBackend("list_prometheus", "PROMETHEUS_URL", "http://back.test");
  ports.answer = () => jsonAnswer({ status: "success", data });
  const { ok, text } = await call(tool, args);
  assert.equal(ok, true, text);
  assert.match(text, lines);
  assert.doesNotMatch(text, /omitted/);
  const { pathname, search } = ports.requests[0]!.url;
  assert.equal(decodeURIComponent(pathname + search), asked);
});

Deno.test.each([
  { name: "labels", args: {}, asked: "labels", data: ["app"], shown: "app" },
  {
    name: "the values of a label",
    args: { label: "app", match: '{a="b"}' },
    asked: "label/app/values",
    data: ["web"],
    shown: "web",
  },
  {
    name: "streams",
    args: { match: '{a="b"}' },
    asked: "series",
    data: [{ app: "web" }],
    shown: '{app="web"}',
  },
  { name: "nothing", args: { label: "app" }, asked: "label/app/values", data: undefined, shown: "(nothing)" },
])("list_loki shows $name", async ({ args, asked, data, shown }) => {
  const { ports, tool } = setUpBackend("list_loki", "LOKI_URL", "http://back.test");
  ports.answer = () => jsonAnswer({ status: "success", data });
  assert.equal((await call(tool, args)).text.split("\n")[1], shown);
  const { pathname, searchParams } = ports.requests[0]!.url;
  assert.equal(pathname, `/loki/api/v1/${asked}`);
  assert.deepEqual(searchParams.get("start"), "1767319445000000000");
});

Deno.test.each(["list_prometheus", "list_loki"].map((name) => ({ name })))(
  "$name rejects a label that is a path",
  async ({ name }) => {
    const setting = name === "list_loki" ? "LOKI_URL" : "PROMETHEUS_URL";
    const { ports, tool } = setUpBackend(name, setting, "http://back.test");
    for (const label of ["../admin", "a/b", "a?x", "a.b", "__name__/../..", "é"]) {
      assert.equal(
        (await call(tool, { ...name === "list_prometheus" && { what: "labels" }, label })).ok,
        false,
      );
    }
    assert.deepEqual(ports.requests, []);
  },
);

Deno.test("query_loki queries the last minutes and shows the newest lines by label set", async () => {
  const { ports, tool } = setUpBackend("query_loki", "LOKI_URL", "http://back.test");
  ports.answer = () =>
    jsonAnswer({
      data: {
        resultType: "streams",
        result: [{ stream: { app: "web" }, values: [["1767323045000000001", "boom hunter2", {}]] }],
      },
    });
  const { text } = await call(tool, { query: '{app="web"}', minutes: 5, limit: 7 });
  const query = Object.fromEntries(ports.requests[0]!.url.searchParams);
  assert.deepEqual(query, {
    query: '{app="web"}',
    start: "1767322745000000000",
    end: "1767323045000000000",
    limit: "7",
    direction: "backward",
  });
  assert.deepEqual(text.split("\n").slice(1), ['{app="web"}', "  2026-01-02T03:04:05.000Z boom [REDACTED]"]);
});

Deno.test("query_loki limits the number of lines", async () => {
  const { ports, tool } = setUpBackend("query_loki", "LOKI_URL", "http://back.test");
  ports.answer = () => jsonAnswer({ data: { resultType: "streams", result: [] } });
  for (const limit of [0, 5000]) assert.equal((await call(tool, { query: "{a=`b`}", limit })).ok, true);
  assert.deepEqual(ports.requests.map(({ url }) => url.searchParams.get("limit")), ["1", "500"]);
});

Deno.test("query_loki shows metrics", async () => {
  const { ports, tool } = setUpBackend("query_loki", "LOKI_URL", "http://back.test");
  ports.answer = () =>
    jsonAnswer({ data: { resultType: "matrix", result: [{ metric: { a: "b" }, values: [[5, "2"]] }] } });
  const { text, chart } = await call(tool, { query: "rate(x)" });
  assert.match(text, /1 samples.*\n\{a="b"\} => 2 at 1970-01-01T00:00:05Z$/s);
  assert.deepEqual(chart, { series: [{ label: '{a="b"}', points: [[5000, 2]] }] });
});
