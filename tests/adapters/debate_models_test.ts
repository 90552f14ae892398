import assert from "node:assert/strict";
import { join } from "node:path";
import type { ModelRequest } from "../../debate/engine/ports.ts";
import {
  answerYes,
  failureOf,
  type Listener,
  openStream,
  providersOf,
  startProvider,
} from "./debate_models_fixture.ts";
import { delta, requestOf } from "../../debate/testing/chat_provider.ts";
import { poll } from "../stage/poll.ts";
import { createFolder } from "../stage/folder.ts";

async function callHub(
  listener: Listener,
  request: Partial<ModelRequest> = {},
  env: Record<string, string> = {},
) {
  await using provider = await startProvider(listener);
  using fixture = providersOf({ HUB_TOKEN: "hub-token", HUB_BASE_URL: `${provider.url}/v1/`, ...env });
  const model = await fixture.providers.model("hub/vendor/some-model");
  const deltas: string[] = [];
  const onDelta = (text: string) => deltas.push(text);
  const [result] = await Promise.allSettled([model.complete(requestOf({ onDelta, ...request }))]);
  return { result: Promise.resolve(result), calls: provider.calls, deltas, warnings: fixture.warnings };
}

async function replyOf(call: ReturnType<typeof callHub>) {
  const result = await (await call).result;
  assert.ok(result?.status === "fulfilled", String(result?.status === "rejected" ? result.reason : ""));
  return result.value;
}

async function errorOf(call: ReturnType<typeof callHub>) {
  const result = await (await call).result;
  assert.ok(result?.status === "rejected");
  return await failureOf(Promise.reject(result.reason));
}

Deno.test("a model of hub is called at its base URL, with its token and this program's user agent", async () => {
  const called = callHub(answerYes);
  assert.deepEqual(await replyOf(called), {
    text: "Yes.",
    toolCalls: [],
    usage: { input_tokens: 7, output_tokens: 3, total_tokens: 10 },
  });
  const [call] = (await called).calls;
  assert.equal(call?.path, "/v1/chat/completions");
  assert.equal(call.headers.authorization, "Bearer hub-token");
  assert.equal(call.headers["user-agent"], "debate");
  assert.ok(!Object.keys(call.headers).some((name) => /^(?:x-stainless|openai)/.test(name)));
  assert.equal(JSON.parse(call.body).model, "vendor/some-model");
});

Deno.test("a stream that breaks off is an error after the text so far", async () => {
  let cut = () => {};
  const deltas: string[] = [];
  const onDelta = (text: string) => {
    deltas.push(text);
    cut();
  };
  const called = callHub((_call, response) => {
    openStream(response, delta("Half a"), 'data: {"choi');
    cut = () => response.destroy();
  }, { onDelta });
  const error = await errorOf(called);
  assert.equal(error.kind, "server");
  assert.match(error.message, /connection was lost/);
  assert.deepEqual(deltas, ["Half a"]);
  assert.equal((await called).calls.length, 1);
});

Deno.test("a call to an unreachable provider fails after its retries", async () => {
  let url = "";
  {
    await using gone = await startProvider(answerYes);
    url = gone.url;
  }
  using fixture = providersOf({ HUB_TOKEN: "hub-token", HUB_BASE_URL: url });
  const error = await failureOf((await fixture.providers.model("hub/m")).complete(requestOf()));
  assert.match(error.message, /cannot be reached, or the connection was lost: .*Connection refused/);
  assert.equal(fixture.warnings.length, 3);
});

Deno.test("a stream of binary data is an error", async () => {
  const error = await errorOf(callHub((_call, response) => {
    openStream(response, delta("A"), "\0\x01\x02\xff".repeat(100));
    response.end();
  }));
  assert.equal(error.kind, "server");
});

Deno.test("an endless text is truncated, and its connection is closed", async () => {
  await using provider = await startProvider((_call, response) => {
    openStream(response);
    const flood = () => {
      while (!response.destroyed && response.write(delta("all work and no play ".repeat(100))));
      if (!response.destroyed) response.once("drain", flood);
    };
    flood();
  });
  using fixture = providersOf({ HUB_TOKEN: "hub-token", HUB_BASE_URL: provider.url });
  const model = await fixture.providers.model("hub/m");
  const { text } = await model.complete(requestOf({ onDelta: () => {} }));
  assert.equal(text.length, 200_000);
  await poll(() => provider.closed.length === 1, { what: "the end of the connection" });
});

Deno.test("an endless stream of comments is an error, and its connection is closed", async () => {
  await using provider = await startProvider((_call, response) => {
    openStream(response);
    const flood = () => {
      while (!response.destroyed && response.write(`: ${"x".repeat(65_536)}\n\n`));
      if (!response.destroyed) response.once("drain", flood);
    };
    flood();
  });
  using fixture = providersOf({ HUB_TOKEN: "hub-token", HUB_BASE_URL: provider.url });
  const error = await failureOf(
    (await fixture.providers.model("hub/m")).complete(requestOf({ onDelta: () => {} })),
  );
  assert.equal(error.kind, "bad_reply", error.message);
  await poll(() => provider.closed.length >= 1, { what: "the end of the connection" });
});

Deno.test("an endless answer that is not a stream is rejected", async () => {
  await using provider = await startProvider((_call, response) => {
    response.writeHead(200, { "content-type": "application/json" });
    response.end(`{"choices":[{"message":{"content":"${"x".repeat(40_000_000)}"}}]}`);
  });
  using fixture = providersOf({ HUB_TOKEN: "hub-token", HUB_BASE_URL: provider.url });
  const error = await failureOf((await fixture.providers.model("hub/m")).complete(requestOf()));
  assert.equal(error.kind, "bad_reply");
  assert.match(error.message, /longer than/);
});

Deno.test("a redirect is not followed, so the token stays with its provider", async () => {
  await using elsewhere = await startProvider(answerYes);
  const called = callHub((_call, response) => {
    response.writeHead(307, { location: `${elsewhere.url}/chat/completions` }).end();
  });
  assert.equal((await errorOf(called)).kind, "bad_reply");
  assert.equal(elsewhere.calls.length, 0);
});

Deno.test("a canceled call closes its connection", async () => {
  await using provider = await startProvider((_call, response) => openStream(response, delta("Half a")));
  using fixture = providersOf({ HUB_TOKEN: "hub-token", HUB_BASE_URL: provider.url });
  const controller = new AbortController();
  const model = await fixture.providers.model("hub/m");
  const failed = failureOf(
    model.complete(requestOf({ signal: controller.signal, onDelta: () => controller.abort() })),
  );
  assert.equal((await failed).kind, "canceled");
  await poll(() => provider.closed.length === 1, { what: "the end of the connection" });
});

Deno.test("a rejected temperature is omitted from later calls of all runs", async () => {
  await using provider = await startProvider((call, response, count) => {
    if (!call.body.includes("temperature")) return answerYes(call, response, count);
    response.writeHead(400).end('{"error":{"message":"no","param":"temperature"}}');
  });
  using fixture = providersOf({ HUB_TOKEN: "hub-token", HUB_BASE_URL: provider.url });
  for (let run = 0; run < 2; run++) {
    const model = await fixture.providers.model("hub/m");
    assert.equal((await model.complete(requestOf({ onDelta: () => {} }))).text, "Yes.");
  }
  assert.equal(provider.calls.length, 3);
});

Deno.test("a provider without a URL is not called", async () => {
  using fixture = providersOf({ HUB_TOKEN: "hub-token", ASSIST_TOKEN: "assist-token" });
  for (const [id, variable] of [["hub/m", "HUB_BASE_URL"], ["assist/m", "ASSIST_BASE_URL"]] as const) {
    const error = await failureOf((await fixture.providers.model(id)).complete(requestOf()));
    assert.equal(error.kind, "auth");
    assert.ok(error.message.includes(`set ${variable},`), error.message);
  }
});

Deno.test("a scenario name cannot refer to a file outside the directory", async () => {
  await using home = await createFolder();
  await Deno.mkdir(join(home.path, "scenarios"));
  await Deno.writeTextFile(join(home.path, "outside.json"), '{"rounds":[{}]}');
  using fixture = providersOf({ REPLAY_DIR: join(home.path, "scenarios") });
  await assert.rejects(fixture.providers.model("replay/../outside"), /Cannot find scenario "..\/outside"/);
});

Deno.test("scenarios of REPLAY_DIR are listed with the built-in ones and take precedence", async () => {
  await using folder = await createFolder();
  const mine = '{"rounds":[{"diagnostic_agent":[{"text":"mine"}]}]}';
  await Deno.writeTextFile(join(folder.path, "mine.json"), mine);
  await Deno.writeTextFile(join(folder.path, "slow_query.json"), mine);
  await Deno.writeTextFile(join(folder.path, "broken.json"), '{\n"round": []}');
  await Deno.writeTextFile(join(folder.path, "notes.txt"), "");
  using fixture = providersOf({ REPLAY_DIR: folder.path });
  const { providers } = fixture;
  for (const id of ["replay/mine", "replay/slow_query"]) {
    assert.equal((await (await providers.model(id)).complete(requestOf())).text, "mine");
  }
  await assert.rejects(
    providers.model("replay/broken"),
    /broken\.json": 2 problems\n {2}missing key "rounds"\n {2}unknown key "round"/,
  );
  const { models } = await providers.catalogue.list();
  assert.deepEqual(models.map(({ name }) => name), [
    "broken",
    "certificate expired",
    "memory leak",
    "mine",
    "slow query",
  ]);
});

/** The provider of assist: sessions, device flow, models and completions. */
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

Deno.test("assist: log in, store the token for the owner only, list and call models", async () => {
  await using provider = await startProvider(assist);
  await using home = await createFolder();
  using fixture = providersOf(assistEnv(provider.url), home.path);
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
  const file = join(home.path, ".config/debate/assist_token");
  assert.equal(await Deno.readTextFile(file), "assist-token\n");
  assert.equal((await Deno.stat(file)).mode! & 0o777, 0o600);
  assert.equal((await Deno.stat(join(home.path, ".config/debate"))).mode! & 0o777, 0o700);

  assert.equal((await model.complete(requestOf({ onDelta: () => {} }))).text, "Yes.");
  const completion = provider.calls.findLast(({ path }) => path === "/api/chat/completions");
  assert.equal(completion?.headers["x-team"], "ops");
  const { models, problems } = await providers.catalogue.list();
  assert.deepEqual(problems, []);
  assert.deepEqual(models.map(({ id }) => id), [
    "assist/gpt-4o",
    "replay/certificate_expired",
    "replay/memory_leak",
    "replay/slow_query",
  ]);
  assert.equal((await providers.sessions.status()).isValid, true);
});

Deno.test("a session that is rejected early is replaced during the call", async () => {
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

Deno.test("an invalid token file is reported without its content", async () => {
  await using home = await createFolder();
  const file = join(home.path, "token");
  await Deno.writeTextFile(file, "not a\ntoken");
  using fixture = providersOf({ ASSIST_TOKEN_FILE: file, ASSIST_BASE_URL: "http://127.0.0.1:1" }, home.path);
  const error = await failureOf((await fixture.providers.model("assist/m")).complete(requestOf()));
  assert.match(error.message, /the stored access token cannot be read; run `debate login`$/);
});
