import assert from "node:assert/strict";
import { createTools } from "./catalogue.ts";
import { BARE_SETTINGS, FakePorts } from "./testing/tool_bench.ts";

const NAMES = [
  "http_get",
  "query_prometheus",
  "query_loki",
  "query_elasticsearch",
  "git_recent_changes",
  "run_db_explain",
  "run_local_command",
  "run_ssh_command",
  "run_kubectl",
];

function names(settings: Partial<typeof BARE_SETTINGS>): readonly string[] {
  return createTools({ ...BARE_SETTINGS, ...settings }, new FakePorts()).map(({ name }) => name);
}

Deno.test.each([
  { name: "all of them", settings: {}, enabled: NAMES },
  { name: "none when tools are off", settings: { TOOLS_ENABLED: false }, enabled: [] },
  {
    name: "those that are enabled, and ignores names that are not known",
    settings: { ENABLED_TOOLS: ["run_kubectl", "http_get", "rm"] },
    enabled: ["http_get", "run_kubectl"],
  },
])("createTools() gives $name", ({ settings, enabled }) => {
  assert.deepEqual(names(settings), enabled);
});

Deno.test("createTools() refuses an allow-list with an entry that is none", () => {
  assert.throws(() => names({ HTTP_ALLOWED_HOSTS: ["http://x"] }), { code: "invalid_config" });
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
