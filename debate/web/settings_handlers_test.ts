import assert from "node:assert/strict";
import { WebFixture } from "../testing/web_fixture.ts";

Deno.test("settings, prompts, models and status have their specified fields", async () => {
  const web = await WebFixture.open();
  const settings = await (await web.get("/api/settings")).json();
  for (
    const key of [
      "diagnostic_model",
      "skeptic_model",
      "moderator_model",
      "summary_model",
      "max_rounds",
      "confidence_threshold",
      "early_out_threshold",
      "prompt_template",
      "prompt_language",
      "tool_approval_required",
      "compress_history",
    ]
  ) assert.ok(key in settings, key);
  assert.doesNotMatch(JSON.stringify(settings), /token|password/i);
  const { templates } = await (await web.get("/api/prompts")).json();
  assert.deepEqual(templates.slice(0, 2).map(({ name }: { name: string }) => name), ["default", "default"]);
  assert.deepEqual(Object.keys(templates[0]), ["name", "language", "version", "description", "source"]);
  for (
    const [method, path] of [["GET", "/api/models"], ["POST", "/api/models/refresh"], [
      "GET",
      "/api/models/refresh",
    ]]
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

Deno.test("the login by device flow gives no token away, and its errors with status 200", async () => {
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
