import assert from "node:assert/strict";
import { createTools } from "./catalogue.ts";
import {
  BARE_SETTINGS,
  call,
  FakePorts,
  jsonAnswer,
  setUpBackend,
  textAnswer,
} from "./testing/tool_bench.ts";
import { ToolFailure } from "./run_program.ts";
import { checkIndex, checkSearchBody, MAX_HITS } from "./search_body.ts";

const CASES = [
  {
    name: "query_prometheus",
    setting: "PROMETHEUS_URL",
    args: { query: "up" },
    answer: { data: { resultType: "vector", result: [] } },
  },
  {
    name: "query_loki",
    setting: "LOKI_URL",
    args: { query: "{a=1}" },
    answer: { data: { resultType: "streams", result: [] } },
  },
  {
    name: "query_elasticsearch",
    setting: "ELASTICSEARCH_URL",
    args: { index: "logs", query_json: "{}" },
    answer: { hits: { hits: [] } },
  },
] as const;

Deno.test.each(CASES)(
  "$name connects to the configured server at any address and hides its credentials",
  async ({ name, setting, args, answer }) => {
    const { ports, tool } = setUpBackend(name, setting, "http://op:s%40cret@back.test:9/prefix/");
    ports.answer = () => jsonAnswer(answer);
    const { ok, text } = await call(tool, args);
    assert.equal(ok, true, text);
    const [request] = ports.requests;
    assert.equal(request?.address, "10.0.0.9");
    assert.match(request.url.href, /^http:\/\/back\.test:9\/prefix\/[a-z]/);
    assert.equal(request.headers["authorization"], `Basic ${btoa("op:s@cret")}`);
    assert.doesNotMatch(text, /back\.test|s@cret|s%40cret/);
  },
);

Deno.test.each(CASES)(
  "$name fails if it is not configured",
  async ({ name, setting, args }) => {
    const { ports, tool } = setUpBackend(name, setting, "");
    const { ok, text } = await call(tool, args);
    assert.equal(ok, false);
    assert.match(text, new RegExp(`has to set ${setting}`));
    assert.deepEqual(ports.lookups, []);
  },
);

Deno.test.each(CASES)("$name rejects a server from the model", async ({ name, setting, args }) => {
  const { ports, tool } = setUpBackend(name, setting, "http://op:pw@back.test:9/prefix");
  const { ok, text } = await call(tool, { ...args, base_url: "http://evil.test" });
  assert.equal(ok, false);
  assert.match(text, /Unrecognized key: "base_url"/);
  assert.deepEqual(ports.lookups, []);
});

Deno.test.each(CASES.flatMap(({ answer: _, ...row }) => [
  {
    ...row,
    name: `${row.name}: an error status`,
    tool: row.name,
    reply: jsonAnswer({ error: "bad hunter2" }, 400),
    why: /responded 400: .*\[REDACTED\]/,
  },
  {
    ...row,
    name: `${row.name}: a redirect`,
    tool: row.name,
    reply: textAnswer("", { status: 302, headers: { location: "http://127.0.0.1/" } }),
    why: /responded 302/,
  },
  {
    ...row,
    name: `${row.name}: a response that is not JSON`,
    tool: row.name,
    reply: textAnswer("<html>"),
    why: /is not JSON/,
  },
  {
    ...row,
    name: `${row.name}: JSON of an unknown form`,
    tool: row.name,
    reply: jsonAnswer([1]),
    why: /unknown form/,
  },
  {
    ...row,
    name: `${row.name}: a compressed response`,
    tool: row.name,
    reply: textAnswer("x", { headers: { "content-encoding": "br" } }),
    why: /compressed/,
  },
  {
    ...row,
    name: `${row.name}: a response over the size limit`,
    tool: row.name,
    reply: { ...textAnswer("{}"), isCut: true },
    why: /larger than/,
  },
]))("$name is a failure", async ({ tool: name, setting, args, reply, why }) => {
  const { ports, tool } = setUpBackend(name, setting, "http://back.test");
  ports.answer = () => reply;
  const { ok, text } = await call(tool, args);
  assert.equal(ok, false);
  assert.match(text, why);
  assert.equal(ports.requests.length, 1);
});

Deno.test("query_elasticsearch posts a search and shows sources and aggregations", async () => {
  const { ports, tool } = setUpBackend("query_elasticsearch", "ELASTICSEARCH_URL", "http://back.test");
  ports.answer = () =>
    jsonAnswer({
      hits: { total: { value: 3, relation: "gte" }, hits: [{ _index: "l1", _source: { m: "x" } }] },
      aggregations: { a: 1 },
    });
  const { text } = await call(tool, { index: "l1,l-*", query_json: '{"query":{"match_all":{}},"size":900}' });
  const [request] = ports.requests;
  assert.equal(request?.method, "POST");
  assert.equal(request.url.pathname, "/l1,l-*/_search");
  assert.deepEqual(JSON.parse(request.body!), { query: { match_all: {} }, size: 50, timeout: "15s" });
  assert.match(
    text,
    /^search l1,l-\*: at least 3 hits, 1 shown .*\nl1 \{"m":"x"\}\naggregations: \{\n "a": 1\n\}$/,
  );
});

Deno.test.each([
  { name: "an index that is a path", args: { index: "../_cluster", query_json: "{}" } },
  { name: "an index with a query string", args: { index: "a?x=1", query_json: "{}" } },
  { name: "a script", args: { index: "a", query_json: '{"script_fields":{}}' } },
])("query_elasticsearch rejects $name", async ({ args }) => {
  const { ports, tool } = setUpBackend("query_elasticsearch", "ELASTICSEARCH_URL", "http://back.test");
  assert.equal((await call(tool, args)).ok, false);
  assert.deepEqual(ports.requests, []);
});

const NAMES =
  ("http_get query_prometheus list_prometheus query_loki list_loki query_elasticsearch git_recent_changes run_db_explain " +
    "run_local_command run_ssh_command run_kubectl").split(" ");

Deno.test("createTools() creates all tools, and rejects an invalid allowlist entry", () => {
  assert.deepEqual(createTools(BARE_SETTINGS, new FakePorts()).map(({ name }) => name), NAMES);
  const settings = { ...BARE_SETTINGS, HTTP_ALLOWED_HOSTS: ["http://x"] };
  assert.throws(() => createTools(settings, new FakePorts()), { code: "invalid_config" });
});

Deno.test("createTools() describes arguments as JSON schemas with defaults", () => {
  for (const { parameters, description, name } of createTools(BARE_SETTINGS, new FakePorts())) {
    assert.equal(parameters["type"], "object", name);
    assert.ok(description.length > 20, name);
    const properties = parameters["properties"] as Record<string, Record<string, unknown>>;
    assert.equal(typeof properties["timeout"]?.["default"], "number", name);
    assert.doesNotThrow(() => JSON.stringify(parameters));
  }
});

Deno.test.each([
  { name: "the requested size", text: "{}", size: 5, sent: 5 },
  { name: "the size of the body", text: '{"size": 7}', size: 5, sent: 7 },
  { name: "never more hits than the bound", text: '{"size": 10000}', size: 5, sent: MAX_HITS },
  { name: "never more hits than the bound, from the argument", text: "{}", size: 10_000, sent: MAX_HITS },
  { name: "the requested size if the body's is not a number", text: '{"size": "10000"}', size: 5, sent: 5 },
  { name: "the requested size if the body's is negative", text: '{"size": -1}', size: 5, sent: 5 },
])("checkSearchBody() sends $name", ({ text, size, sent }) => {
  const checked = checkSearchBody(text, size);
  assert.equal(checked.size, sent);
});

Deno.test("checkSearchBody() accepts queries and aggregations", () => {
  const body = {
    query: {
      bool: {
        filter: [{ term: { level: "error" } }, { terms: { host: ["a", "b"] } }],
        must: { match: { message: { query: "out of memory", operator: "and" } } },
        must_not: [{ nested: { path: "a", query: { range: { "a.n": { gte: 1 } } } } }],
      },
    },
    aggs: {
      by: {
        terms: { field: "host", size: 5, order: { _count: "desc" } },
        aggs: { last: { top_hits: { size: 1, sort: [{ "@timestamp": { order: "desc" } }] } } },
      },
      only: { filter: { exists: { field: "a" } }, aggs: { sum: { sum: { field: "n" } } } },
      each: { filters: { filters: { a: { match_all: {} } } } },
    },
    sort: [{ "@timestamp": { order: "desc" } }],
    collapse: { field: "host" },
    size: 3,
  };
  assert.deepEqual(checkSearchBody(JSON.stringify(body), 20), body);
});

Deno.test.each([
  { name: "broken JSON", text: "{" },
  { name: "an array", text: "[]" },
  { name: "null", text: "null" },
  { name: "a script field", text: '{"script_fields": {}}' },
  { name: "runtime fields", text: '{"runtime_mappings": {}}' },
  { name: "a script in a query", text: '{"query": {"script": {"script": "x"}}}' },
  { name: "a script in an array", text: '{"query": {"bool": {"must": [{"script_score": {}}]}}}' },
  { name: "a scripted aggregation", text: '{"aggs": {"a": {"scripted_metric": {}}}}' },
  { name: "a sort by script", text: '{"sort": {"_script": {}}}' },
  {
    name: "a lookup in another index",
    text: '{"query": {"terms": {"u": {"index": ".security", "id": "1", "path": "p"}}}}',
  },
  { name: "a document of another index", text: '{"query": {"more_like_this": {"like": [{"_index": "x"}]}}}' },
  { name: "a shape of another index", text: '{"query": {"geo_shape": {"l": {"indexed_shape": {}}}}}' },
  ...[
    '{"query": {"wrapper": {"query": "e30="}}}',
    '{"query": {"bool": {"must": [{"wrapper": {"query": "e30="}}]}}}',
    '{"query": {"match_all": {}, "wrapper": {"query": "e30="}}}',
    '{"query": {"match": {"a": {"query": {"wrapper": {}}}}}}',
    '{"query": {"nested": {"path": "a", "query": {"match_all": {}}, "inner_hits": {}}}}',
    '{"query": {"pinned": {"ids": ["1"], "organic": {"match_all": {}}}}}',
    '{"query": {"constructor": {}}}',
    '{"query": "x"}',
    '{"query": {}}',
    '{"post_filter": {"wrapper": {"query": "e30="}}}',
    '{"aggs": {"a": {"filter": {"wrapper": {"query": "e30="}}}}}',
    '{"aggs": {"a": {"filter": {"match_all": {}}, "global": {}}}}',
    '{"aggs": {"a": {"filters": {"filters": [{"wrapper": {"query": "e30="}}]}}}}',
    '{"aggs": {"a": {"terms": {"field": "a"}, "aggregations": {"b": {"significant_terms": {}}}}}}',
    '{"aggs": {"a": {"top_hits": {"highlight": {}}}}}',
    '{"aggs": {"a": {"adjacency_matrix": {"filters": {"a": {"wrapper": {}}}}}}}',
    '{"sort": [{"a": {"nested": {"path": "a", "filter": {"wrapper": {}}}}}]}',
    '{"collapse": {"field": "a", "inner_hits": {"name": "b"}}}',
  ].map((text) => ({ name: text, text })),
  { name: "deep nesting", text: `{"query": ${'{"a":'.repeat(50)}1${"}".repeat(50)}}` },
  { name: "a long text", text: `{"query": "${"x".repeat(50_001)}"}` },
])("checkSearchBody() rejects $name", ({ text }) => {
  assert.throws(() => checkSearchBody(text, 20), ToolFailure);
});

Deno.test.each(["logs", "logs-*", "logs-2026.01.01,app_1", "*"].map((index) => ({ name: index, index })))(
  "checkIndex() accepts $name",
  ({ index }) => assert.equal(checkIndex(index), undefined),
);

Deno.test.each([
  "",
  ".security",
  "_all",
  "_cluster/settings",
  "logs/_delete_by_query",
  "../x",
  "a?pretty",
  "a#b",
  "-a",
  "a,.b",
  "<logs-{now}>",
  "remote:logs",
  "a b",
  "A",
  "a%2f",
  "a,".repeat(30),
].map((index) => ({ name: JSON.stringify(index.slice(0, 20)), index })))(
  "checkIndex() rejects $name",
  ({ index }) => {
    assert.throws(() => checkIndex(index), ToolFailure);
  },
);
