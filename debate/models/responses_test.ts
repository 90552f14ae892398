import assert from "node:assert/strict";
import {
  event,
  failureOf,
  json,
  modelOf,
  refusal,
  requestOf,
  stream,
  until,
} from "../testing/chat_provider.ts";
import { RESPONSES } from "./responses.ts";
import type { ModelRequest } from "../engine/ports.ts";

const modelOfResponses = (...answers: (() => Response)[]) =>
  modelOf(answers, { api: RESPONSES, name: "gpt-5.5" });

const text = (delta: string) => event({ type: "response.output_text.delta", delta });
const call = (call_id: string, args: unknown) => ({
  type: "function_call",
  id: `fc_${call_id}`,
  call_id,
  name: "http_get",
  arguments: args,
});
const done = (item: unknown) => event({ type: "response.output_item.done", item });
const message = (...content: unknown[]) => ({ type: "message", role: "assistant", content });
const completed = (response: Record<string, unknown> = {}) =>
  event({ type: "response.completed", response: { object: "response", status: "completed", ...response } });
const whole = (response: Record<string, unknown>) =>
  json({ object: "response", status: "completed", output: [], ...response });

const listening: Partial<ModelRequest> = { onDelta: () => {} };

Deno.test.each([
  {
    name: "streamed only as a whole",
    answer: (output: unknown) => stream(completed({ output })),
    listening,
  },
  { name: "without streaming", answer: (output: unknown) => whole({ output }), listening: {} },
])("OpenAiChat reads text and calls of a response $name", async ({ answer, listening }) => {
  const output = [
    { type: "reasoning", summary: ["hm"] },
    message({ type: "output_text", text: "The " }, { type: "refusal", refusal: "heap" }, 7),
    call("c1", "{}"),
    null,
  ];
  const { model } = modelOfResponses(() => answer(output));
  const reply = await model.complete(requestOf(listening));
  assert.equal(reply.text, "The heap");
  assert.deepEqual(reply.toolCalls, [{ id: "c1", name: "http_get", arguments: "{}" }]);
});

Deno.test.each([
  {
    name: "streamed",
    answer: (calls: readonly unknown[]) => stream(...calls.map(done), completed()),
    listening,
  },
  { name: "without streaming", answer: (output: readonly unknown[]) => whole({ output }), listening: {} },
])(
  "OpenAiChat keeps the calls of a response $name separate, whatever their IDs",
  async ({ answer, listening }) => {
    const { model } = modelOfResponses(() =>
      answer([call("c1", '{"url":"a"}'), call("c1", '{"url":"b"}'), call("", { url: "c" }), call("c1", 7)])
    );
    const { toolCalls } = await model.complete(requestOf(listening));
    assert.deepEqual(toolCalls.map((each) => each.arguments), [
      '{"url":"a"}',
      '{"url":"b"}',
      '{"url":"c"}',
      "",
    ]);
    assert.equal(new Set(toolCalls.map(({ id }) => id)).size, 4);
  },
);

Deno.test("OpenAiChat keeps the text of a truncated response", async () => {
  const incomplete = event({
    type: "response.incomplete",
    response: { incomplete_details: { reason: "max_output_tokens" } },
  });
  const { model } = modelOfResponses(() => stream(text("So far"), incomplete));
  const { text: said, isCut } = await model.complete(requestOf(listening));
  assert.deepEqual([said, isCut], ["So far", true]);
});

const failed = event({
  type: "response.failed",
  response: { status: "failed", error: { code: "server_error", message: "raw words" } },
});

Deno.test.each([
  { name: "fails", answer: () => stream(text("A"), failed), kind: "server", says: /failed \(server_error\)/ },
  {
    name: "contains an invalid error code",
    answer: () => stream(text("A"), event({ type: "error", code: "<b>raw words</b>" })),
    kind: "server",
    says: /the provider failed$/,
  },
  {
    name: "is withheld",
    answer: () =>
      stream(
        event({
          type: "response.incomplete",
          response: { incomplete_details: { reason: "content_filter" } },
        }),
      ),
    kind: "bad_reply",
    says: /withheld/,
  },
  {
    name: "contains too many calls",
    answer: () =>
      stream(...Array.from({ length: 65 }, (_, index) => done(call(`c${index}`, "{}"))), completed()),
    kind: "bad_reply",
    says: /too many tool calls/,
  },
])("OpenAiChat fails if a response $name", async ({ answer, kind, says }) => {
  const { model, requests } = modelOfResponses(answer);
  const error = await failureOf(model.complete(requestOf(listening)));
  assert.equal(error.kind, kind);
  assert.match(error.message, says);
  assert.equal(requests.length, 1);
});

Deno.test.each([
  { name: "an error with status 200", answer: () => json({ error: { message: "raw words" } }) },
  { name: "a chat completion", answer: () => json({ object: "chat.completion", choices: [] }) },
  { name: "a list", answer: () => json([]) },
  { name: "null", answer: () => json(null) },
])("OpenAiChat finds no response in $name", async ({ answer }) => {
  const { model, warnings, clock } = modelOfResponses(answer);
  let isOver = false;
  const failure = failureOf(model.complete(requestOf())).finally(() => isOver = true);
  for (let retries = 1; retries <= 3 && !isOver; retries++) {
    await until(() => isOver || warnings.length === retries);
    await clock.advance(8000);
  }
  assert.equal((await failure).kind, "bad_reply");
});

Deno.test.each([
  { param: "reasoning.effort", key: "reasoning", request: { reasoningEffort: "high" as const } },
  { param: "text.format", key: "text", request: { jsonSchema: { type: "object" } } },
])(
  "OpenAiChat omits a parameter that the model rejects: $param",
  async ({ param, key, request }) => {
    const { model, requests } = modelOfResponses(
      () => refusal(400, { param }),
      () => whole({ output: [message({ type: "output_text", text: "Yes." })] }),
    );
    assert.equal((await model.complete(requestOf(request))).text, "Yes.");
    const bodies = await Promise.all(requests.map((each) => each.json()));
    assert.deepEqual(bodies.map((body) => key in body), [true, false]);
  },
);
