import assert from "node:assert/strict";
import * as z from "@zod/zod";
import { ALERTMANAGER } from "../alerts/testing/payloads.ts";
import { FixedTool } from "../testing/debate_fixture.ts";
import { GUARDED_TOOL, openRun, problemOf, twoRounds, WebFixture, withTool } from "../testing/web_fixture.ts";
import cancelled from "../testing/stored_runs/cancelled.json" with { type: "text" };
import resumed from "../testing/stored_runs/resumed.json" with { type: "text" };
import rounds from "../testing/stored_runs/rounds_with_operator.json" with { type: "text" };
import samples from "../testing/stored_runs/samples_in_spanish.json" with { type: "text" };
import { OPERATIONS } from "./routes.ts";

const SECRET = "a-secret-of-alertmanager";
const LOGIN = {
  ...{
    device_code: "d",
    user_code: "u",
    verification_uri: "https://a.example",
    interval: 5,
    expires_in: 900,
  },
  ...{ status: "pending" as const, last_error: null },
};

const open = (env: Readonly<Record<string, string>> = {}) =>
  WebFixture.open({
    env: { ALERT_SECRET: SECRET, ...env },
    model: withTool(),
    tools: [new FixedTool(GUARDED_TOOL)],
    login: LOGIN,
  });

async function documentOf(web: WebFixture) {
  const document = await (await web.get("/api/openapi.json")).json();
  return (key: string) => {
    const [method = "", path = ""] = key.split(" ");
    const { responses } = document.paths[path][method.toLowerCase()];
    const schemaOf = (status: number) => {
      const { schema } = responses[status].content["application/json"];
      return schema.$ref === "#/components/schemas/Run" ? document.components.schemas.Run : schema;
    };
    return { statuses: Object.keys(responses).map(Number), schemaOf };
  };
}

/** Makes unknown members of a schema fail, at every depth. */
function closed(shape: unknown): unknown {
  if (Array.isArray(shape)) return shape.map(closed);
  if (typeof shape !== "object" || shape === null) return shape;
  const inner = Object.fromEntries(Object.entries(shape).map(([key, value]) => [key, closed(value)]));
  return "properties" in shape ? { additionalProperties: false, ...inner } : inner;
}

const post = (web: WebFixture, path: string, body: string | FormData, more: HeadersInit = {}) =>
  web.send("POST", path, { body, headers: { "x-alert-secret": SECRET, ...more } });
const JSON_TYPE = { "content-type": "application/json" };

Deno.test("every JSON answer of the running handlers fits its published schema exactly", async () => {
  const web = await open();
  const published = await documentOf(web);
  const checked = new Set<string>();
  const check = async (key: string, response: Response) => {
    const value = await response.clone().json();
    const schema = z.fromJSONSchema(
      closed(published(key).schemaOf(response.status)) as z.core.JSONSchema.JSONSchema,
    );
    const { error } = schema.safeParse(value);
    assert.equal(error, undefined, `${key}: ${error && z.prettifyError(error)}`);
    const isOpen = ["GET /api/openapi.json", "GET /api/schema/run"].includes(key);
    assert.equal(schema.safeParse({ ...value, unknown_member: 1 }).success, isOpen, key);
    checked.add(key);
    return value;
  };
  const send = async (key: string, body?: object, param: Readonly<Record<string, string>> = {}) => {
    const [method = "", route = ""] = key.split(" ");
    const path = route.replace(/\{(\w+)\}/g, (_, name) => param[name] ?? "");
    const isForm = OPERATIONS[key]?.form !== undefined;
    const response = isForm
      ? await web.form(path, { ...body })
      : body === undefined
      ? await web.send(method, path)
      : await post(web, path, JSON.stringify(body), JSON_TYPE);
    return await check(key, response);
  };
  for (
    const key of ["GET /api/openapi.json", "GET /api/schema/run", "GET /api/settings", "GET /api/prompts"]
  ) {
    await send(key);
  }
  for (
    const key of [
      "GET /api/models",
      "POST /api/models/refresh",
      "GET /api/auth/status",
    ]
  ) {
    await send(key);
  }
  await send("GET /api/prompts/{name}/{language}", undefined, { name: "default", language: "es" });
  const { text } = await send("GET /api/prompts/{name}/{language}", undefined, {
    name: "errors",
    language: "en",
  });
  await send("POST /api/prompts/preview", { file: "errors.en.yaml", text });
  await send("POST /api/prompts/preview", { file: "errors.en.yaml", text: "name: [" });
  for (const form of [{ action: "start" }, { action: "check", device_code: "d" }, { action: "check" }]) {
    await send("POST /api/auth/copilot", form);
  }
  const { run_id } = await send("POST /api/runs", { topic: "slow", pause_between_rounds: "yes" });
  await web.settle();
  await send("GET /api/runs");
  const live = await send("GET /api/runs/{run_id}", undefined, { run_id });
  const { call_id } = live.events.find(({ type }: { type: string }) => type === "tool_approval_request");
  await send("POST /api/runs/{run_id}/options", { require_approval: true }, { run_id });
  await send("POST /api/runs/{run_id}/approval", { call_id, approved: true }, { run_id });
  await web.end(run_id);
  await send("POST /api/runs/{run_id}/title", { title: "a title" }, { run_id });
  const record = await send("GET /api/runs/{run_id}", undefined, { run_id });
  const imported = await send("POST /api/runs/import", record);
  await send("GET /api/runs/{run_id}", undefined, imported);
  await send("GET /api/runs");
  const resumed = await send("POST /api/runs/{run_id}/resume", { new_evidence: "a log" }, { run_id });
  await send("DELETE /api/runs/{run_id}", undefined, resumed);
  await web.end(resumed.run_id);
  await send("GET /api/runs/{run_id}", undefined, resumed);
  await send("DELETE /api/runs/{run_id}", undefined, resumed);
  await send("POST /api/alerts", ALERTMANAGER);
  await send("POST /api/alerts", { ...ALERTMANAGER, groupKey: "other", status: "resolved" });
  await send("GET /api/alerts");
  const paused = await openRun({ model: twoRounds() }, { pause_between_rounds: "yes" });
  const comment = await paused.web.post(`/api/runs/${paused.runId}/comment`, { comment: "look" });
  await check("POST /api/runs/{run_id}/comment", comment);
  const described = Object.entries(OPERATIONS).filter(([, { returns }]) => returns !== undefined);
  assert.deepEqual([...checked].toSorted(), described.map(([key]) => key).toSorted());
  // An operation without a schema has another media type.
  for (const [key, { returns, type }] of Object.entries(OPERATIONS)) {
    assert.equal(returns === undefined, type !== undefined, key);
  }
});

Deno.test.each(Object.entries({ cancelled, resumed, rounds, samples }))(
  "a record of 2026-11-22 fits the schema of GET /api/schema/run exactly: %s",
  async (_, text) => {
    const schema = closed(await (await (await open()).get("/api/schema/run")).json());
    z.fromJSONSchema(schema as z.core.JSONSchema.JSONSchema).parse(JSON.parse(text));
  },
);

const BODIES = Object.entries(OPERATIONS).filter(([, { json, form }]) =>
  json !== undefined || form !== undefined
)
  .map(([key, operation]) => ({ key, isForm: operation.form !== undefined }));
const LARGE = "a".repeat(11_000_000);

Deno.test.each(BODIES)("the document has the errors of $key", async ({ key, isForm }) => {
  const web = await open();
  const { statuses } = (await documentOf(web))(key);
  const path = key.slice(5).replace("{run_id}", await web.startAndEnd({ require_approval: "no" }));
  const type = isForm ? "application/x-www-form-urlencoded" : "application/json";
  const seen = [
    await post(web, path, "a", { "content-type": "text/plain" }),
    await post(web, path, `"${LARGE}"`, { "content-type": type }),
    ...isForm
      ? [await post(web, path, "a", { "content-type": "multipart/form-data; boundary=b" })]
      : [await post(web, path, "{", { "content-type": type })],
  ];
  const problems = await Promise.all(seen.map(problemOf));
  assert.deepEqual(problems.map(({ status }) => status), [415, 413, isForm ? 400 : 422]);
  for (const { status } of problems) assert.ok(statuses.includes(status), String(status));
});

Deno.test.each(Object.keys(OPERATIONS))("%s: the document has the errors of the guard", async (key) => {
  const [method = "", route = ""] = key.split(" ");
  const path = route.replace("{run_id}", "0".repeat(32)).replace(/\{\w+\}/g, "a");
  const init = { method, headers: { host: "rebound.example" } };
  const guarded = await WebFixture.open({ env: { WEB_USERNAME: "ann", WEB_PASSWORD: "long-password" } });
  const { statuses } = (await documentOf(await open()))(key);
  const refusals = [
    await guarded.send(method, path),
    await (await WebFixture.open()).send(method, path, init),
  ];
  const problems = await Promise.all(refusals.map(problemOf));
  assert.deepEqual(problems.map(({ status }) => status), [401, 403]);
  for (const status of [401, 403, 429, 500]) assert.ok(statuses.includes(status), String(status));
});
