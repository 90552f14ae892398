import assert from "node:assert/strict";
import { hanging, problemOf, type Typed, WebFixture } from "../testing/web_fixture.ts";
import { loadSettings } from "../settings/config.ts";
import { missingSettings } from "./settings_handlers.ts";
import { SHORT_SCRIPT } from "../testing/debate_fixture.ts";
import { ModelError } from "../engine/ports.ts";
import { ScriptedModel } from "../testing/scripted_model.ts";

Deno.test("settings, prompts, models and status have their specified fields", async () => {
  const web = await WebFixture.open();
  const settings = await (await web.get("/api/settings")).json();
  for (
    const key
      of ("diagnostic_model skeptic_model moderator_model summary_model max_rounds confidence_threshold " +
        "early_out_threshold prompt_template prompt_language tool_approval_required compress_history sandbox_problem tools")
        .split(
          " ",
        )
  ) assert.ok(key in settings, key);
  assert.doesNotMatch(JSON.stringify({ ...settings, providers: [] }), /token|password/i);
  const { templates } = await (await web.get("/api/prompts")).json();
  assert.deepEqual(templates.slice(0, 2).map(({ name }: { name: string }) => name), ["default", "default"]);
  assert.deepEqual(Object.keys(templates[0]), ["name", "language", "version", "description", "source"]);
  for (
    const [method, path] of [["GET", "/api/models"], ["POST", "/api/models/refresh"]]
  ) {
    const { models } = await (await web.send(method!, path!)).json();
    assert.deepEqual(models, [{
      id: "replay/script",
      name: "script",
      provider: "replay",
      price: { input: 1, output: 2 },
    }]);
  }
  const status = await (await web.get("/api/auth/status")).json();
  assert.equal(status.copilot_configured, true);
  assert.equal(status.copilot_session_expires_in_seconds, 1500);
  assert.equal(status.github_models_token_preview, null);
  assert.deepEqual(status.missing_settings, ["ASSIST_BASE_URL"]);
});

Deno.test("the device flow reveals no token and reports errors with status 200", async () => {
  const login = {
    device_code: "d1",
    user_code: "AB-12",
    verification_uri: "https://login.example/device",
    interval: 5,
    expires_in: 900,
    status: "authorized",
    last_error: null,
  } as const;
  const web = await WebFixture.open({ login });
  const ask = async (fields: Record<string, string>) => {
    const response = await web.send("POST", "/api/auth/copilot", { body: new URLSearchParams(fields) });
    return { status: response.status, body: await response.json() };
  };
  assert.deepEqual((await ask({ action: "start" })).body, { ...login, ghu_token: null });
  assert.equal((await ask({ action: "check", device_code: "d1" })).body.status, "authorized");
  for (const fields of [{ action: "check" }, { action: "check", device_code: "x" }, { action: "jump" }]) {
    const { status, body } = await ask(fields as Record<string, string>);
    assert.deepEqual([status, body.status], [200, "error"]);
    assert.ok(body.error.length > 0);
  }
  assert.equal((await ask({})).status, 422);
});

Deno.test("the preview of a built-in template's file reports no problem", async () => {
  const web = await WebFixture.open();
  for (const id of ["default/en", "security/es"]) {
    const { file, text, source } = await (await web.get(`/api/prompts/${id}`)).json();
    assert.deepEqual([file, source], [`${id.replace("/", ".")}.yaml`, "builtin"]);
    const { problem, prompts } =
      await (await web.post("/api/prompts/preview", { file, text, topic: "it hangs" })).json();
    assert.equal(problem, null);
    const nodes = ["diagnostic_agent", "skeptic_agent", "diagnostic_rebuttal_agent", "moderator_agent"];
    assert.deepEqual(prompts.map(({ node }: { readonly node: string }) => node), nodes);
    assert.match(prompts[0].messages[1].content, /(?:TOPIC|TEMA):\nit hangs/);
  }
});

Deno.test.each([
  {
    name: "a key that is missing",
    file: "a.en.yaml",
    text: "name: a\nlanguage: en\n",
    says: /key "diagnostic_system" is missing/,
  },
  { name: "invalid YAML", file: "a.en.yaml", text: "a: [", says: /line 1/ },
  { name: "the name of its file", file: "../a.en.yaml", text: "name: a", says: /the file name must be/ },
])("POST /api/prompts/preview reports the problem of $name", async ({ file, text, says }) => {
  const web = await WebFixture.open();
  const { problem, prompts } = await (await web.post("/api/prompts/preview", { file, text })).json();
  assert.match(problem, says);
  assert.deepEqual(prompts, []);
});

Deno.test("a run with a broken template of the operator is rejected with its file name and its problem", async () => {
  const web = await WebFixture.open({ templates: [{ name: "errors.en.yaml", text: "name: [" }] });
  const { status, code, detail } = await problemOf(
    await web.form("/api/runs", { topic: "slow", template: "errors" }),
  );
  assert.deepEqual([status, code], [400, "invalid_request"]);
  assert.match(detail, /^Cannot load prompt template "errors\.en\.yaml": .*line 1: /s);
  assert.deepEqual((await web.store.list()).length, 0);
});

Deno.test("an unknown template returns 404, and a preview without text 422", async () => {
  const web = await WebFixture.open();
  assert.equal((await problemOf(await web.get("/api/prompts/default/fr"))).status, 404);
  assert.equal((await problemOf(await web.get("/api/prompts/__proto__/en"))).status, 404);
  assert.equal((await problemOf(await web.post("/api/prompts/preview", { file: "a.en.yaml" }))).status, 422);
});

const NONE = {
  ...loadSettings({ env: { HOME: "/home/op" }, workingFolder: "/" }),
  DIAGNOSTIC_MODEL: "replay/a",
  SKEPTIC_MODEL: "replay/a",
  MODERATOR_MODEL: "replay/a",
};
const URLS = { HUB_BASE_URL: "https://hub.example", ASSIST_BASE_URL: "https://assist.example" };

Deno.test.each([
  { name: "no missing settings for scripted models", settings: {}, missing: [] },
  {
    name: "address and token of the provider of any role",
    settings: { SKEPTIC_MODEL: "assist/a" },
    missing: ["ASSIST_BASE_URL", "ASSIST_TOKEN"],
  },
  {
    name: "the settings of the summary model",
    settings: { SUMMARY_MODEL: "hub/a" },
    missing: ["HUB_BASE_URL", "HUB_TOKEN"],
  },
  { name: "the token alone", settings: { DIAGNOSTIC_MODEL: "hub/a", ...URLS }, missing: ["HUB_TOKEN"] },
  {
    name: "the address if the token is set",
    settings: { DIAGNOSTIC_MODEL: "hub/a", MODERATOR_MODEL: "assist/a" },
    hasTokens: true,
    missing: ["HUB_BASE_URL", "ASSIST_BASE_URL"],
  },
  {
    name: "nothing where all is set",
    settings: { DIAGNOSTIC_MODEL: "hub/a", MODERATOR_MODEL: "assist/a", ...URLS },
    hasTokens: true,
    missing: [],
  },
])("missingSettings() returns $name", ({ settings, hasTokens = false, missing }) => {
  const given = { ...NONE, ...settings, ...(hasTokens && { HUB_TOKEN: "t" }) };
  assert.deepEqual(missingSettings(given, hasTokens), missing);
});

Deno.test("GET /api/settings lists the providers without keys", async () => {
  const web = await WebFixture.open({
    env: {
      MODEL_PROVIDERS: JSON.stringify({
        claude: {
          protocol: "anthropic",
          base_url: "https://api.anthropic.com/v1",
          key_variable: "ANTHROPIC_API_KEY",
        },
        gpt: { base_url: "https://api.openai.com/v1", key_variable: "OPENAI_API_KEY" },
        local: { base_url: "http://127.0.0.1:11434/v1" },
      }),
      ANTHROPIC_API_KEY: "sk-ant-secret",
      ASSIST_DEVICE_CODE_URL: "https://login.example/code",
      ASSIST_DEVICE_TOKEN_URL: "https://login.example/token",
      ASSIST_CLIENT_ID: "ours",
    },
  });
  const text = await (await web.get("/api/settings")).text();
  assert.doesNotMatch(text, /sk-ant/);
  const state = (name: string, protocol: string, missing: readonly string[], login = false) => (
    { name, protocol, configured: missing.length === 0, missing, login }
  );
  assert.deepEqual(JSON.parse(text).providers, [
    state("claude", "anthropic", []),
    state("gpt", "openai", ["OPENAI_API_KEY"]),
    state("local", "openai", []),
    state("hub", "openai", ["HUB_BASE_URL", "HUB_TOKEN"]),
    state("assist", "openai", ["ASSIST_BASE_URL"], true),
  ]);
});

const UNKNOWN = "f".repeat(32);

Deno.test("a run is resumed with new evidence, from its history and hypotheses", async () => {
  const model = new ScriptedModel(SHORT_SCRIPT);
  const web = await WebFixture.open({ model });
  const parent = await web.startAndEnd({ incident_file: new File(["it hangs"], "incident.md") });
  const before = model.requests.length;
  const response = await web.form(`/api/runs/${parent}/resume`, {
    new_evidence: "the pool was full; token=abcdef123456",
    evidence_file: new File(["graph"], "graph.txt"),
  });
  const { run_id } = await response.json();
  await web.end(run_id);
  const record = await web.record(run_id);
  assert.equal(record.parent_run_id, parent);
  assert.equal(record.parent_topic, "checkout answers slowly");
  assert.match(record.context, /it hangs[^]*the pool was full[^]*graph\.txt/);
  assert.doesNotMatch(record.context, /abcdef123456/);
  assert.deepEqual(record.events.slice(0, 2).map(({ type }: Typed) => type), [
    "run_resumed",
    "run_started",
  ]);
  assert.ok(JSON.stringify(model.requests[before]?.messages).includes("Measure the pool."));
});

Deno.test("a resume returns 400 without evidence after a result, 404 without a run and 409 for a live run", async () => {
  const web = await WebFixture.open();
  const parent = await web.startAndEnd();
  const status = async (path: string, fields: Record<string, string>) =>
    (await problemOf(await web.form(path, fields))).status;
  assert.equal(await status(`/api/runs/${parent}/resume`, { new_evidence: " " }), 400);
  assert.equal(await status(`/api/runs/${UNKNOWN}/resume`, { new_evidence: "x" }), 404);
  const script = { ...SHORT_SCRIPT, skeptic_agent: [new ModelError("server", "broke off")] };
  const failing = await WebFixture.open({ model: new ScriptedModel(script) });
  const failed = await failing.startAndEnd();
  const again = await failing.form(`/api/runs/${failed}/resume`, {});
  const { run_id } = await again.json();
  assert.equal((await failing.record(run_id)).parent_run_id, failed);
  const live = await WebFixture.open({ model: hanging() });
  const runId = await live.start();
  assert.equal(
    (await problemOf(await live.form(`/api/runs/${runId}/resume`, { new_evidence: "x" }))).status,
    409,
  );
  await live.stop(runId);
});

Deno.test("two concurrent resumes create two runs", async () => {
  const web = await WebFixture.open();
  const parent = await web.startAndEnd();
  const answers = await Promise.all(
    [1, 2].map(async () =>
      await (await web.form(`/api/runs/${parent}/resume`, { new_evidence: "same" })).json()
    ),
  );
  const [one, two] = answers.map(({ run_id }) => run_id);
  assert.notEqual(one, two);
  await Promise.all([web.end(one), web.end(two)]);
  for (const id of [one, two]) assert.equal((await web.record(id)).status, "completed");
  assert.equal((await (await web.get("/api/runs")).json()).runs.length, 3);
});

Deno.test("a run does not expire while it is being resumed", async () => {
  const web = await WebFixture.open();
  const parent = await web.startAndEnd();
  const { directory, store } = web;
  const read = directory.read.bind(directory);
  const tried: boolean[] = [];
  directory.read = async (name) => {
    tried.push(await store.expire(parent, Infinity));
    return await read(name);
  };
  const response = await web.form(`/api/runs/${parent}/resume`, { new_evidence: "more" });
  await web.end((await response.json()).run_id);
  assert.deepEqual([response.status, tried], [200, [false]]);
  assert.equal(await store.expire(parent, Infinity), true);
});
