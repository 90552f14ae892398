import assert from "node:assert/strict";
import { ToolFailure } from "./run_program.ts";
import { checkIndex, checkSearchBody, MAX_HITS } from "./http_tools.ts";

Deno.test.each([
  { name: "the size asked for", text: "{}", size: 5, sent: 5 },
  { name: "the size of the body", text: '{"size": 7}', size: 5, sent: 7 },
  { name: "never more hits than the bound", text: '{"size": 10000}', size: 5, sent: MAX_HITS },
  { name: "never more hits than the bound, from the argument", text: "{}", size: 10_000, sent: MAX_HITS },
  { name: "the size asked for when the body's is no number", text: '{"size": "10000"}', size: 5, sent: 5 },
  { name: "the size asked for when the body's is negative", text: '{"size": -1}', size: 5, sent: 5 },
])("checkSearchBody() sends $name", ({ text, size, sent }) => {
  const checked = checkSearchBody(text, size);
  assert.equal(checked.size, sent);
});

Deno.test("checkSearchBody() passes queries and aggregations", () => {
  const body = {
    query: { bool: { filter: [{ term: { level: "error" } }, { terms: { host: ["a", "b"] } }] } },
    aggs: { by: { terms: { field: "host", size: 5 } } },
    sort: [{ "@timestamp": "desc" }],
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
  { name: "deep nesting", text: `{"query": ${'{"a":'.repeat(50)}1${"}".repeat(50)}}` },
  { name: "a long text", text: `{"query": "${"x".repeat(50_001)}"}` },
])("checkSearchBody() refuses $name", ({ text }) => {
  assert.throws(() => checkSearchBody(text, 20), ToolFailure);
});

Deno.test.each(["logs", "logs-*", "logs-2026.01.01,app_1", "*"].map((index) => ({ name: index, index })))(
  "checkIndex() passes $name",
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
  "checkIndex() refuses $name",
  ({ index }) => {
    assert.throws(() => checkIndex(index), ToolFailure);
  },
);
