import assert from "node:assert/strict";
import type { ServerResponse } from "node:http";
import type { ChatMessage, ModelRequest } from "../../debate/engine/ports.ts";
import { requestOf } from "../../debate/testing/chat_provider.ts";
import { poll } from "../stage/poll.ts";
import { failureOf, openStream, providersOf, startProvider } from "./debate_models_fixture.ts";
import { KEY, startStrictServer, streamText, type Wire, WIRES } from "./debate_protocols_fixture.ts";

const TOOL = { name: "http_get", description: "gets", parameters: { type: "object", properties: {} } };
const SCHEMA = { type: "object", properties: {} };

/** A provider with the name `mine`. */
function providersAt({ protocol }: Wire, base_url: string, env: Record<string, string> = {}) {
  const mine = { protocol, base_url, key_variable: "MODEL_KEY_MINE" };
  return providersOf({ MODEL_PROVIDERS: JSON.stringify({ mine }), MODEL_KEY_MINE: KEY, ...env });
}

const callOf = (number: number) => (
  { id: `call_${number}`, name: "http_get", arguments: `{"url":"http://a.test/${number}"}` }
);
const ASKS = { text: "I look.", calls: [callOf(1), callOf(2)] };
const ANSWER = { text: "The pool is empty.", calls: [] };

const ROUNDS = WIRES.flatMap((wire) =>
  [true, false].flatMap((isStreamed) =>
    ["gpt-4o", "claude-opus-4.6", "o3"].map((name) => (
      { wire, isStreamed, name, title: `${wire.protocol} ${isStreamed ? "streamed" : "whole"}, ${name}` }
    ))
  )
);

Deno.test.each(ROUNDS)("a model calls tools and answers: $title", async ({ wire, isStreamed, name }) => {
  await using server = startStrictServer(wire, [ASKS, ANSWER]);
  using fixture = providersAt(wire, server.url);
  const model = await fixture.providers.model(`mine/${name}`);
  const deltas: string[] = [];
  const ask = async (messages: readonly ChatMessage[], more: Partial<ModelRequest> = {}) =>
    await model.complete(requestOf({
      messages,
      tools: [TOOL],
      reasoningEffort: "medium",
      ...(isStreamed ? { onDelta: (text: string) => deltas.push(text) } : {}),
      ...more,
    }));
  const question: ChatMessage[] = [
    { role: "system", content: "You diagnose." },
    { role: "user", content: "Why?" },
  ];
  const first = await ask(question);
  assert.deepEqual(first.toolCalls.map(({ extra: _, ...call }) => call), ASKS.calls);
  assert.equal(deltas.splice(0).join(""), isStreamed ? ASKS.text : "");
  const second = await ask([
    ...question,
    { role: "assistant", content: first.text, toolCalls: first.toolCalls },
    ...first.toolCalls.map(({ id }) => ({ role: "tool" as const, content: "200 OK", toolCallId: id })),
    { role: "user", content: "No calls are left." },
  ], { toolChoice: "none", jsonSchema: SCHEMA });
  const { text, toolCalls, usage } = second;
  assert.deepEqual([text, toolCalls], [ANSWER.text, []]);
  assert.deepEqual(usage, { input_tokens: 20, output_tokens: 5, total_tokens: 25 });
  assert.equal(deltas.join(""), isStreamed ? ANSWER.text : "");
  assert.deepEqual(fixture.warnings, []);
});

const json =
  (status: number, headers: Record<string, string> = {}) => (wire: Wire, response: ServerResponse) => {
    response.writeHead(status, { "content-type": "application/json", ...headers });
    response.end(JSON.stringify(wire.error("words of the provider")));
  };

/** Sends the beginning of an answer. Returns the text of its last events. */
function begin(wire: Wire, response: ServerResponse): void {
  const events = wire.events(ANSWER);
  const end = events.findIndex((event) => JSON.stringify(event).includes("pool"));
  openStream(response, streamText(events.slice(0, end)));
}

const FAILURES = [
  { name: "401", fail: json(401), kind: "auth", says: /HTTP 401.*check MODEL_KEY_MINE$/ },
  { name: "404", fail: json(404), kind: "bad_reply", says: /HTTP 404.*"words of the provider"$/ },
  { name: "429", fail: json(429, { "retry-after": "20" }), kind: "rate", says: /pause of 20 s$/ },
  { name: "529, overloaded", fail: json(529), kind: "server", says: /HTTP 529/, calls: 4 },
  {
    name: "an HTML page",
    fail: (_: Wire, response: ServerResponse) =>
      void response.writeHead(200, { "content-type": "text/html" }).end("<html>"),
    kind: "bad_reply",
    says: /text\/html.*is the base URL right\?$/,
  },
  {
    name: "a stream that ends in the middle",
    fail(wire: Wire, response: ServerResponse) {
      begin(wire, response);
      response.end();
    },
    kind: "server",
    says: /stopped in the middle/,
  },
  {
    name: "an error in the stream",
    fail(wire: Wire, response: ServerResponse) {
      begin(wire, response);
      const error = { type: "overloaded_error", code: "overloaded_error", message: "secret words" };
      response.end(streamText([{ type: "error", error }]));
    },
    kind: "server",
    says: /the provider failed \(overloaded_error\)$/,
  },
  {
    name: "broken JSON",
    fail(wire: Wire, response: ServerResponse) {
      begin(wire, response);
      response.end("data: {broken\n\n");
    },
    kind: "bad_reply",
    says: /did not send a chat completion/,
  },
  {
    name: "an endless event",
    fail(wire: Wire, response: ServerResponse) {
      begin(wire, response);
      response.write("data: ");
      const flood = () => {
        while (!response.destroyed && response.write("x".repeat(65_536)));
        if (!response.destroyed) response.once("drain", flood);
      };
      flood();
    },
    kind: "bad_reply",
    says: /longer than 33554432 bytes/,
  },
  {
    name: "silence",
    fail: () => {},
    kind: "timeout",
    says: /sent nothing within 1 s$/,
    env: { MODEL_IDLE_SECONDS: "1" },
  },
];

const FAILED = WIRES.flatMap((wire) =>
  FAILURES.map((failure) => ({ wire, failure, title: `${wire.protocol}: ${failure.name}` }))
);

Deno.test.each(FAILED)("a call fails after $title", async ({ wire, failure }) => {
  await using provider = await startProvider((_, response) => failure.fail(wire, response));
  using fixture = providersAt(wire, `${provider.url}/v1`, failure.env ?? {});
  const model = await fixture.providers.model("mine/some-model");
  const error = await failureOf(model.complete(requestOf({ onDelta: () => {} })));
  assert.equal(error.kind, failure.kind);
  assert.match(error.message, /^Model "mine\/some-model" gave no reply: /);
  assert.match(error.message, failure.says);
  assert.doesNotMatch(error.message, new RegExp(KEY));
  assert.equal(provider.calls.length, failure.calls ?? provider.calls.length);
  await poll(() => provider.closed.length === provider.calls.length, { what: "the end of the connections" });
});

Deno.test.each([
  { id: "assist/gpt-5-5-codex", path: "/responses" },
  { id: "assist/gpt-5", path: "/chat/completions" },
  { id: "hub/openai/gpt-5.5", path: "/chat/completions" },
  { id: "plain/m", path: "/chat/completions", headers: { authorization: undefined } },
  {
    id: "azure/m",
    path: "/chat/completions?api-version=2024-10-21",
    headers: { "api-key": KEY, authorization: undefined, "x-team": "ops" },
  },
  {
    id: "claude/m",
    path: "/messages",
    headers: { "x-api-key": KEY, "anthropic-version": "2026-10-21", authorization: undefined },
  },
])("$id is called at $path with its headers", async ({ id, path, headers = {} }) => {
  await using provider = await startProvider((_, response) => void response.writeHead(400).end());
  const { url } = provider;
  using fixture = providersOf({
    ...{ ASSIST_TOKEN: KEY, ASSIST_BASE_URL: url, HUB_TOKEN: KEY, HUB_BASE_URL: url },
    OPENAI_API_KEY: KEY,
    MODEL_PROVIDERS: JSON.stringify({
      plain: { base_url: url },
      azure: {
        base_url: url,
        key_variable: "OPENAI_API_KEY",
        key_header: "api-key",
        api_version: "2024-10-21",
        headers: { "X-Team": "ops" },
      },
      claude: {
        ...{ protocol: "anthropic", base_url: url, key_variable: "OPENAI_API_KEY" },
        api_version: "2026-10-21",
      },
    }),
  });
  await failureOf((await fixture.providers.model(id)).complete(requestOf()));
  assert.equal(provider.calls[0]?.path, path);
  for (const [name, value] of Object.entries(headers)) {
    assert.equal(provider.calls[0]?.headers[name], value, name);
  }
});

Deno.test("the models of all named providers are listed, and those without a key are left out", async () => {
  await using provider = await startProvider((_, response) => {
    response.writeHead(200, { "content-type": "application/json" });
    response.end(JSON.stringify({ data: [{ id: "m", display_name: "M" }] }));
  });
  const { url } = provider;
  using fixture = providersOf({
    ANTHROPIC_API_KEY: KEY,
    MODEL_PROVIDERS: JSON.stringify({
      claude: { protocol: "anthropic", base_url: url, key_variable: "ANTHROPIC_API_KEY" },
      local: { base_url: url },
      unset: { base_url: url, key_variable: "OPENAI_API_KEY" },
    }),
  });
  const { models, problems } = await fixture.providers.catalogue.list();
  assert.deepEqual(problems, []);
  const ids = models.map(({ id }) => id).filter((id) => !id.startsWith("replay/"));
  assert.deepEqual(ids, ["claude/m", "local/m"]);
  const claude = provider.calls.find(({ path }) => path === "/models?limit=1000");
  assert.equal(claude?.headers["x-api-key"], KEY);
  assert.equal(claude.headers["anthropic-version"], "2023-06-01");
  const missing = await failureOf((await fixture.providers.model("unset/m")).complete(requestOf()));
  assert.match(missing.message, /there is no access token; set OPENAI_API_KEY$/);
});
