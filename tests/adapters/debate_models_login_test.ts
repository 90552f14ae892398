import assert from "node:assert/strict";
import { join } from "node:path";
import {
  answerYes,
  failureOf,
  type Listener,
  providersOf,
  requestOf,
  startProvider,
} from "./debate_models_fixture.ts";

/** Provider B: sessions, device flow, models and completions. */
const assist: Listener = (call, response, count) => {
  const json = (value: unknown, status = 200) =>
    response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(value));
  switch (call.path) {
    case "/session":
      if (call.headers.authorization !== "token assist-token") return json({}, 401);
      return json({ token: `session-for-${count}` });
    case "/device/code":
      return json({
        device_code: "secret-code",
        user_code: "ABCD-1234",
        verification_uri: "https://login.test/device",
        interval: 2,
        expires_in: 900,
      });
    case "/device/token":
      return json({ access_token: "assist-token" });
    case "/api/models":
      return json({ data: [{ id: "gpt-4o", name: "GPT-4o" }, { id: "text-embedding-3" }] });
    case "/api/chat/completions":
      if (!call.headers.authorization?.startsWith("Bearer session-for-")) return json({}, 401);
      return answerYes(call, response, count);
    default:
      return json({}, 404);
  }
};

const assistEnv = (url: string) => ({
  ASSIST_BASE_URL: `${url}/api`,
  ASSIST_SESSION_URL: `${url}/session`,
  ASSIST_DEVICE_CODE_URL: `${url}/device/code`,
  ASSIST_DEVICE_TOKEN_URL: `${url}/device/token`,
  ASSIST_CLIENT_ID: "our-client",
  ASSIST_HEADERS: '{"X-Team":"ops"}',
});

Deno.test("provider B: log in, have the token stored for the owner alone, list and call its models", async () => {
  await using provider = await startProvider(assist);
  const home = await Deno.makeTempDir();
  try {
    using fixture = providersOf(assistEnv(provider.url), home);
    const { providers } = fixture;
    const model = await providers.model("assist/gpt-4o");
    const missing = await failureOf(model.complete(requestOf()));
    assert.match(missing.message, /there is no access token; set ASSIST_TOKEN or run `debate login`$/);
    assert.deepEqual(
      (await providers.catalogue.list()).models.filter(({ provider }) => provider === "assist"),
      [],
    );

    const flow = await providers.deviceFlows.start();
    const done = await providers.deviceFlows.wait(flow.device_code, new AbortController().signal);
    assert.equal(done?.status, "authorized");
    const file = join(home, ".config/debate/assist_token");
    assert.equal(await Deno.readTextFile(file), "assist-token\n");
    assert.equal((await Deno.stat(file)).mode! & 0o777, 0o600);
    assert.equal((await Deno.stat(join(home, ".config/debate"))).mode! & 0o777, 0o700);

    assert.equal((await model.complete(requestOf({ onDelta: () => {} }))).text, "Yes.");
    const completion = provider.calls.findLast(({ path }) => path === "/api/chat/completions");
    assert.equal(completion?.headers["x-team"], "ops");
    const { models, problems } = await providers.catalogue.refresh();
    assert.deepEqual(problems, []);
    assert.deepEqual(models.map(({ id }) => id), [
      "assist/gpt-4o",
      "replay/certificate_expired",
      "replay/memory_leak",
      "replay/slow_query",
    ]);
    assert.equal((await providers.sessions.status()).isValid, true);
  } finally {
    await Deno.remove(home, { recursive: true });
  }
});

Deno.test("a session that is refused early is replaced within the call", async () => {
  let refusals = 0;
  await using provider = await startProvider((call, response, count) => {
    const isFirst = call.path === "/api/chat/completions" && refusals++ === 0;
    return isFirst ? void response.writeHead(401).end() : assist(call, response, count);
  });
  using fixture = providersOf({ ...assistEnv(provider.url), ASSIST_TOKEN: "assist-token" });
  const model = await fixture.providers.model("assist/gpt-4o");
  assert.equal((await model.complete(requestOf({ onDelta: () => {} }))).text, "Yes.");
  assert.deepEqual(provider.calls.map(({ path }) => path), [
    "/session",
    "/api/chat/completions",
    "/session",
    "/api/chat/completions",
  ]);
});

Deno.test("a token file that holds something else is explained, and not shown", async () => {
  const home = await Deno.makeTempDir();
  try {
    const file = join(home, "token");
    await Deno.writeTextFile(file, "not a\ntoken");
    using fixture = providersOf({ ASSIST_TOKEN_FILE: file, ASSIST_BASE_URL: "http://127.0.0.1:1" }, home);
    const error = await failureOf((await fixture.providers.model("assist/m")).complete(requestOf()));
    assert.match(error.message, /the stored access token cannot be read; run `debate login`$/);
  } finally {
    await Deno.remove(home, { recursive: true });
  }
});
