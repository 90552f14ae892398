import assert from "node:assert/strict";
import {
  delta,
  failureOf,
  finish,
  json,
  modelOf,
  refusal,
  requestOf,
  said,
  stream,
  until,
} from "../testing/chat_provider.ts";
import { fixedToken } from "./tokens.ts";
import type { OpenAiChatOptions } from "./chat.ts";
import { CHAT_COMPLETIONS, type Refusable } from "./chat_completions.ts";
import type { ModelRequest } from "../engine/ports.ts";

Deno.test("OpenAiChat sends the request of the protocol and no facts about this machine", async () => {
  const { model, requests } = modelOf([() => said("Because.")]);
  const reply = await model.complete(requestOf());
  assert.deepEqual(reply, { text: "Because.", toolCalls: [], usage: undefined });
  const [request] = requests;
  assert.ok(request);
  assert.equal(request.url, "https://models.test/v1/chat/completions");
  assert.equal(request.redirect, "manual");
  assert.deepEqual(Object.fromEntries(request.headers), {
    accept: "application/json",
    authorization: "Bearer secret-token",
    "content-type": "application/json",
    "user-agent": "debate",
  });
  assert.deepEqual(await request.json(), {
    model: "some-model",
    messages: [{ role: "user", content: "Why?" }],
    temperature: 0.2,
    max_tokens: 16_384,
    stream: false,
  });
});

Deno.test.each([
  { name: "500", answer: () => refusal(500), waitMs: 500 },
  { name: "503 with Retry-After", answer: () => refusal(503, {}, { "retry-after": "7" }), waitMs: 7000 },
  {
    name: "503 with retry-after-ms",
    answer: () => refusal(503, {}, { "retry-after-ms": "1500" }),
    waitMs: 1500,
  },
  {
    name: "503 with a date in retry-after",
    answer: () => refusal(503, {}, { "retry-after": "Fri, 02 Jan 2026 03:04:15 GMT" }),
    waitMs: 10_000,
  },
  { name: "408", answer: () => refusal(408), waitMs: 500 },
  { name: "409", answer: () => refusal(409), waitMs: 500 },
  {
    name: "a failed connection",
    answer: () => Promise.reject(new TypeError("connection refused")),
    waitMs: 500,
  },
])("OpenAiChat retries after $name, after the requested pause", async ({ answer, waitMs }) => {
  const { model, clock, requests, warnings } = modelOf([answer, () => said("Yes.")]);
  const reply = model.complete(requestOf());
  await until(() => warnings.length === 1);
  await clock.advance(waitMs - 1);
  assert.equal(requests.length, 1);
  await clock.advance(1);
  assert.equal((await reply).text, "Yes.");
  assert.equal(requests.length, 2);
});

Deno.test("OpenAiChat doubles its pauses and stops after three retries", async () => {
  const { model, clock, requests, warnings } = modelOf([() => refusal(502)]);
  const failed = failureOf(model.complete(requestOf()));
  for (const [index, waitMs] of [500, 1000, 2000].entries()) {
    await until(() => warnings.length === index + 1);
    await clock.advance(waitMs);
  }
  const error = await failed;
  assert.equal(error.kind, "server");
  assert.equal(error.message, 'Model "hub/some-model" gave no reply: the provider failed (HTTP 502)');
  assert.equal(requests.length, 4);
});

Deno.test.each([
  {
    name: "a long pause",
    headers: { "retry-after": "3600" },
    text: / \(HTTP 429\); it requests a pause of 3600 s$/,
  },
  { name: "a short pause", headers: { "retry-after": "20" }, text: /pause of 20 s$/, pauseMs: 20_000 },
  { name: "no pause", headers: {}, text: /too many requests \(HTTP 429\)$/, pauseMs: 0 },
])("OpenAiChat leaves the wait after 429 with $name to its caller", async ({ headers, text, pauseMs }) => {
  const { model, requests } = modelOf([() => refusal(429, {}, headers)]);
  const error = await failureOf(model.complete(requestOf()));
  assert.deepEqual([error.kind, error.pauseMs], ["rate", pauseMs]);
  assert.match(error.message, text);
  assert.equal(requests.length, 1);
});

Deno.test.each([
  { name: "401", status: 401, kind: "auth", text: /rejects the access token \(HTTP 401\); check HUB_TOKEN$/ },
  {
    name: "403",
    status: 403,
    kind: "auth",
    text: /the provider denies access \(HTTP 403\): "raw words of the provider"$/,
  },
  {
    name: "404",
    status: 404,
    kind: "bad_reply",
    text: /the provider does not know the model, or the base URL is wrong \(HTTP 404\): "raw words/,
  },
  {
    name: "400",
    status: 400,
    code: "invalid_thing",
    kind: "bad_reply",
    text: /\(HTTP 400, invalid_thing\): "raw words of/,
  },
  { name: "a hostile code", status: 400, code: "<b>code</b>", kind: "bad_reply", text: /\(HTTP 400\): "raw/ },
  {
    name: "a conversation that is too long",
    status: 413,
    kind: "bad_reply",
    text: /too long .*: "raw words/,
  },
  { name: "no quota", status: 429, code: "insufficient_quota", kind: "rate", text: /quota is used up/ },
])("OpenAiChat fails without a retry for $name", async ({ status, code, kind, text }) => {
  const { model, requests } = modelOf([() => refusal(status, code === undefined ? {} : { code })]);
  const error = await failureOf(model.complete(requestOf()));
  assert.equal(error.kind, kind);
  assert.match(error.message, text);
  assert.equal(requests.length, 1);
});

Deno.test.each([
  { name: "an error as a text", body: { error: "no\n  such \u202e\u001b  model" }, quote: "no such model" },
  { name: "a message", body: { message: "blocked" }, quote: "blocked" },
  { name: "a detail", body: { detail: "blocked" }, quote: "blocked" },
  {
    name: "its token and address",
    body: { error: { message: "secret-token at models.test is bad" } },
    quote: "[REDACTED] at [REDACTED] is bad",
  },
  { name: "another secret", body: { message: "password=hunter2hunter2" }, quote: "password=[REDACTED]" },
  { name: "a long text", body: { message: "x".repeat(1000) }, quote: "x".repeat(300) },
  { name: "a list of one error", body: [{ error: { code: 403, message: "blocked" } }], quote: "blocked" },
])("OpenAiChat quotes one line of the provider for $name", async ({ body, quote }) => {
  const { model } = modelOf([() => json(body, { status: 403 })]);
  const { message } = await failureOf(model.complete(requestOf()));
  assert.equal(
    message,
    `Model "hub/some-model" gave no reply: the provider denies access (HTTP 403): "${quote}"`,
  );
});

Deno.test.each([{ status: 200 }, { status: 403 }])(
  "OpenAiChat doubts the base URL for HTML with status $status",
  async ({ status }) => {
    const page = () =>
      new Response("<html>", { status, headers: { "content-type": "text/html; charset=utf-8" } });
    for (const request of [requestOf(), requestOf({ onDelta: () => {} })]) {
      const { message } = await failureOf(modelOf([page]).model.complete(request));
      assert.ok(
        message.endsWith(`answered with text/html (HTTP ${status}), is the base URL right?`),
        message,
      );
    }
  },
);

Deno.test.each([
  { option: "temperature", by: "its parameter", error: { param: "temperature" }, request: {} },
  {
    option: "temperature",
    by: "words",
    error: { message: "Unsupported value: 'temperature' does not support 0.2" },
    request: {},
  },
  {
    option: "response_format",
    by: "its parameter",
    error: { param: "response_format.json_schema" },
    request: { jsonSchema: { type: "object" } },
  },
  {
    option: "stream_options",
    by: "words",
    error: { message: "Unknown field: stream_options" },
    request: { onDelta: () => {} },
  },
  { option: "max_tokens", by: "its parameter", error: { param: "max_completion_tokens" }, request: {} },
  { option: "max_tokens", by: "words", error: { message: "Unknown field: max_output_tokens" }, request: {} },
  {
    option: "max_tokens",
    by: "the size of the context",
    error: { code: "context_length_exceeded" },
    request: {},
  },
])(
  "OpenAiChat omits a $option that $by rejects, also in later requests",
  async ({ option, error, request }) => {
    const refused: OpenAiChatOptions["refused"] = new Set();
    const answer = request.onDelta === undefined ? () => said("Yes.") : () => stream(delta("Yes."), finish());
    const { model, requests } = modelOf([() => refusal(400, error), answer], { refused });
    assert.equal((await model.complete(requestOf(request))).text, "Yes.");
    assert.equal((await model.complete(requestOf(request))).text, "Yes.");
    const bodies = await Promise.all(requests.map((request) => request.json()));
    assert.deepEqual(bodies.map((body) => option in body), [true, false, false]);
    assert.deepEqual([...refused], [option]);
  },
);

Deno.test("OpenAiChat fails if a rejected option is rejected again", async () => {
  const { model, requests } = modelOf([() => refusal(400, { param: "temperature" })]);
  assert.equal((await failureOf(model.complete(requestOf()))).kind, "bad_reply");
  assert.equal(requests.length, 2);
});

Deno.test("OpenAiChat reports an ignored reasoning effort", async () => {
  const request = requestOf({ reasoningEffort: "high" });
  const ignoring = modelOf([() => said("Yes.")]);
  assert.equal((await ignoring.model.complete(request)).effortIgnored, true);
  const thinking = modelOf([() => said("Yes.")], { name: "o3-mini" });
  assert.equal((await thinking.model.complete(request)).effortIgnored, undefined);
  const body = await thinking.requests[0]?.json();
  assert.equal(body.reasoning_effort, "high");
  assert.ok(!("temperature" in body));
});

Deno.test("OpenAiChat retries once with a new token if the old one is rejected", async () => {
  const tokens = ["old", "new", "newest"];
  const dropped: string[] = [];
  const source = {
    token: () => Promise.resolve(tokens[dropped.length] ?? ""),
    refused: (token: string) => dropped.push(token) > 0,
    remedy: "log in again",
  };
  const renewed = modelOf([() => refusal(401), () => said("Yes.")], { tokens: source });
  assert.equal((await renewed.model.complete(requestOf())).text, "Yes.");
  assert.deepEqual(renewed.requests.map(({ headers }) => headers.get("authorization")), [
    "Bearer old",
    "Bearer new",
  ]);

  const refused = modelOf([() => refusal(401)], { tokens: source });
  assert.match((await failureOf(refused.model.complete(requestOf()))).message, /; log in again$/);
  assert.equal(refused.requests.length, 2);
});

Deno.test("OpenAiChat sends no request without a token", async () => {
  const { model, requests } = modelOf([() => said("Yes.")], { tokens: fixedToken("HUB_TOKEN", "") });
  const error = await failureOf(model.complete(requestOf()));
  assert.equal(
    error.message,
    'Model "hub/some-model" gave no reply: there is no access token; set HUB_TOKEN',
  );
  assert.equal(error.kind, "auth");
  assert.equal(requests.length, 0);
});

Deno.test.each([
  { name: "nothing", answer: new Response(null, { headers: { "content-type": "application/json" } }) },
  { name: "an error with status 200", answer: json({ error: { message: "raw words" } }) },
  { name: "no choices", answer: json({ choices: [] }) },
  { name: "a list", answer: json([]) },
  { name: "null", answer: json(null) },
])("OpenAiChat finds no completion in $name", async ({ answer }) => {
  const { model } = modelOf([() => answer]);
  const error = await failureOf(model.complete(requestOf()));
  assert.equal(error.kind, "bad_reply");
  assert.match(error.message, /did not send a chat completion/);
});

const tool = { name: "http_get", description: "gets", parameters: { type: "object" } };

const body = (request: Partial<ModelRequest>, name = "gpt-4o", refused: Refusable[] = []) =>
  CHAT_COMPLETIONS.body(requestOf(request), { name, refused: new Set(refused), maxOutputTokens: 4096 });

Deno.test.each([
  { model: "gpt-4o", key: "max_tokens" },
  { model: "o3-mini", key: "max_completion_tokens" },
])("CHAT_COMPLETIONS.body() limits the reply of $model with $key", ({ model, key }) => {
  const limits = Object.entries(body({}, model)).filter(([name]) => name.startsWith("max_"));
  assert.deepEqual(limits, [[key, 4096]]);
});

Deno.test("CHAT_COMPLETIONS.body() uses the roles of the protocol", () => {
  const { messages } = body({
    messages: [
      { role: "system", content: "You are" },
      { role: "user", content: "Why?" },
      {
        role: "assistant",
        content: "",
        toolCalls: [{ id: "c1", name: "http_get", arguments: '{"url":"x"}', extra: { google: "s" } }],
      },
      { role: "tool", content: "200 OK", toolCallId: "c1" },
      { role: "assistant", content: "Because." },
    ],
  });
  assert.deepEqual(messages, [
    { role: "system", content: "You are" },
    { role: "user", content: "Why?" },
    {
      role: "assistant",
      content: null,
      tool_calls: [{
        id: "c1",
        type: "function",
        function: { name: "http_get", arguments: '{"url":"x"}' },
        extra_content: { google: "s" },
      }],
    },
    { role: "tool", content: "200 OK", tool_call_id: "c1" },
    { role: "assistant", content: "Because." },
  ]);
});

Deno.test.each([
  { name: "an object as it is", text: '{"url": "x"}', sent: '{"url": "x"}' },
  { name: "empty text as no arguments", text: " ", sent: "{}" },
  { name: "broken JSON as unreadable", text: '{"url', sent: '{"unreadable":"{\\"url"}' },
  { name: "a list as unreadable", text: "[1]", sent: '{"unreadable":"[1]"}' },
])("CHAT_COMPLETIONS.body() repeats the arguments of a call: $name", ({ text, sent }) => {
  const toolCalls = [{ id: "c", name: "a", arguments: text }];
  const [message] = body({ messages: [{ role: "assistant", content: "", toolCalls }] }).messages;
  assert.ok(message?.role === "assistant" && message.tool_calls?.[0]?.type === "function");
  assert.equal(message.tool_calls[0].function.arguments, sent);
});

Deno.test("CHAT_COMPLETIONS.body() offers tools or only describes them", () => {
  const offered = body({ tools: [tool] });
  assert.deepEqual(offered.tools, [{ type: "function", function: tool }]);
  assert.ok(!("tool_choice" in offered));
  assert.equal(body({ tools: [tool], toolChoice: "none" }).tool_choice, "none");
  assert.ok(!("tools" in body({ tools: [] })));
});

Deno.test("CHAT_COMPLETIONS.body() omits tools if the model cannot forbid calls", () => {
  const sent = body({ tools: [tool], toolChoice: "none" }, "gpt-4o", ["tool_choice"]);
  assert.ok(!("tools" in sent) && !("tool_choice" in sent));
});

Deno.test.each(
  [
    { name: "temperature to a plain model", model: "gpt-4o", keys: ["temperature"] },
    { name: "effort instead of temperature to a reasoner", model: "o3", keys: ["reasoning_effort"] },
    {
      name: "effort instead of temperature to a thinking Claude",
      model: "claude-sonnet-4.6",
      keys: ["reasoning_effort"],
    },
    {
      name: "temperature again where effort was refused",
      model: "claude-sonnet-4.6",
      refused: ["reasoning_effort"],
      keys: ["temperature"],
    },
    {
      name: "neither where both are refused",
      model: "o3",
      refused: ["reasoning_effort", "temperature"],
      keys: [],
    },
  ] as const,
)("CHAT_COMPLETIONS.body() sends $name", ({ model, keys, ...row }) => {
  const refused: readonly Refusable[] = "refused" in row ? row.refused : [];
  const sent = body({ reasoningEffort: "high" }, model, [...refused]);
  assert.deepEqual(["temperature", "reasoning_effort"].filter((key) => key in sent), keys);
});

Deno.test("CHAT_COMPLETIONS.body() requests structured output with the schema", () => {
  const schema = { type: "object", properties: {} };
  assert.deepEqual(body({ jsonSchema: schema }).response_format, {
    type: "json_schema",
    json_schema: { name: "decision", strict: true, schema },
  });
});

Deno.test("CHAT_COMPLETIONS.body() streams only with a callback", () => {
  assert.equal(body({}).stream, false);
  const streamed = body({ onDelta: () => {} });
  assert.equal(streamed.stream, true);
  assert.deepEqual(streamed.stream_options, { include_usage: true });
});
