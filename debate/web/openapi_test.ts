import assert from "node:assert/strict";
import { WebFixture } from "../testing/web_fixture.ts";
import { forDebaters } from "../settings/config.ts";
import { OPERATIONS } from "./routes.ts";
import runForm from "./run_form.ts" with { type: "text" };
import runHandlers from "./run_handlers.ts" with { type: "text" };
import settingsHandlers from "./settings_handlers.ts" with { type: "text" };

Deno.test("every field that a form is read for is described, and nothing else", () => {
  const read = [runForm, runHandlers, settingsHandlers].flatMap((source) =>
    [...source.matchAll(/\bread\w+\(\s*form,\s*["`]([\w${}]+)["`]|form\.files\.get\("(\w+)"\)/g)].flatMap((
      [, one, other = ""],
    ) => Object.values(forDebaters((role) => (one ?? other).replace("${role}", role))))
  );
  const described = Object.values(OPERATIONS).flatMap(({ form = {} }) => Object.keys(form));
  assert.deepEqual([...new Set(described)].toSorted(), [...new Set(read)].toSorted());
});

Deno.test("GET /api/openapi.json is an OpenAPI 3.1 document whose bodies are those that are checked", async () => {
  const web = await WebFixture.open();
  const response = await web.get("/api/openapi.json");
  assert.equal(response.status, 200);
  const { openapi, paths } = await response.json();
  assert.equal(openapi, "3.1.0");
  for (
    const [path, { parameters = [] }] of Object.entries<{ parameters?: readonly { name: string }[] }>(paths)
  ) {
    assert.deepEqual(parameters.map(({ name }) => `{${name}}`), path.match(/\{\w+\}/g) ?? [], path);
  }
  const approval = paths["/api/runs/{run_id}/approval"].post;
  const { schema } = approval.requestBody.content["application/json"];
  assert.deepEqual(schema.required, ["call_id", "approved"]);
  assert.deepEqual(Object.keys(approval.responses), ["200", "401", "404", "410", "422", "429"]);
  const start = paths["/api/runs"].post.requestBody.content["multipart/form-data"].schema;
  assert.deepEqual(start.required, ["topic"]);
});
