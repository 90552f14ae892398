import assert from "node:assert/strict";
import { failureOf, json, modelOf, refusal, requestOf } from "../testing/chat_provider.ts";
import { MESSAGES } from "./messages.ts";

const claude = (...answers: readonly (() => Response)[]) =>
  modelOf(answers, { api: MESSAGES, name: "claude-sonnet-4.5", keyHeader: "x-api-key" });

const message = (fields: Record<string, unknown> = {}) =>
  json({ type: "message", content: [{ type: "text", text: "Yes." }], stop_reason: "end_turn", ...fields });

const request = requestOf({ reasoningEffort: "low", jsonSchema: { type: "object" } });
const format = { type: "json_schema", schema: { type: "object" } };

Deno.test.each([
  {
    name: "the effort",
    says: "This model does not support the effort parameter.",
    sent: [16_384, { format }, 0.2],
  },
  {
    name: "the schema",
    says: "output_config.format: Extra inputs are not permitted",
    sent: [16_384, { effort: "low" }, undefined],
  },
  {
    name: "the limit",
    says: "max_tokens: 16384 > 8192, which is the maximum allowed number of output tokens",
    sent: [4096, { effort: "low", format }, undefined],
  },
])("MESSAGES omits $name if the model rejects it", async ({ says, sent }) => {
  const { model, requests } = claude(() => refusal(400, { message: says }), () => message());
  assert.equal((await model.complete(request)).text, "Yes.");
  const { max_tokens, output_config, temperature } = await requests[1]?.json();
  assert.deepEqual([max_tokens, output_config, temperature], sent);
});

Deno.test.each([
  { name: "a truncated text", fields: { stop_reason: "max_tokens" }, text: "Yes.", isCut: true },
  {
    name: "a full context",
    fields: { stop_reason: "model_context_window_exceeded" },
    text: "Yes.",
    isCut: true,
  },
  {
    name: "thoughts, which do not count",
    fields: { content: [{ type: "thinking", thinking: "hm", signature: "s" }, { type: "text", text: "A" }] },
    text: "A",
  },
  { name: "unknown blocks", fields: { content: [null, "x", { type: "future" }] }, text: "" },
  { name: "a reason that is the name of a method", fields: { stop_reason: "constructor" }, text: "Yes." },
])("MESSAGES reads $name", async ({ fields, text, isCut }) => {
  const reply = await claude(() => message(fields)).model.complete(request);
  assert.deepEqual([reply.text, reply.isCut], [text, isCut]);
});

Deno.test("MESSAGES reports a withheld reply and its usage", async () => {
  const usage = { input_tokens: 3, cache_creation_input_tokens: 4, output_tokens: 1 };
  const { model } = claude(() => message({ content: [], stop_reason: "refusal", usage }));
  const error = await failureOf(model.complete(request));
  assert.match(error.message, /withheld the reply/);
  assert.deepEqual(error.usage, { input_tokens: 7, output_tokens: 1, total_tokens: 8 });
});
