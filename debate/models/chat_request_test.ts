import assert from "node:assert/strict";
import { CHAT_COMPLETIONS, type Refusable } from "./chat_completions.ts";
import type { ModelRequest } from "../engine/model.ts";

const base: ModelRequest = {
  messages: [{ role: "user", content: "Why?" }],
  temperature: 0.2,
  signal: new AbortController().signal,
  purpose: "diagnostic_agent",
  round: 1,
};

const tool = { name: "http_get", description: "gets", parameters: { type: "object" } };

const body = (request: Partial<ModelRequest>, name = "gpt-4o", refused: Refusable[] = []) =>
  CHAT_COMPLETIONS.body({ ...base, ...request }, { name, refused: new Set(refused) });

Deno.test("CHAT_COMPLETIONS.body() speaks the protocol's roles", () => {
  const { messages } = body({
    messages: [
      { role: "system", content: "You are" },
      { role: "user", content: "Why?" },
      {
        role: "assistant",
        content: "",
        toolCalls: [{ id: "c1", name: "http_get", arguments: '{"url":"x"}' }],
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
      tool_calls: [{ id: "c1", type: "function", function: { name: "http_get", arguments: '{"url":"x"}' } }],
    },
    { role: "tool", content: "200 OK", tool_call_id: "c1" },
    { role: "assistant", content: "Because." },
  ]);
});

Deno.test.each([
  { name: "an object as it is", text: '{"url": "x"}', sent: '{"url": "x"}' },
  { name: "nothing as no arguments", text: " ", sent: "{}" },
  { name: "broken JSON as what it is", text: '{"url', sent: '{"unreadable":"{\\"url"}' },
  { name: "a list as what it is", text: "[1]", sent: '{"unreadable":"[1]"}' },
])("CHAT_COMPLETIONS.body() repeats the arguments of a call: $name", ({ text, sent }) => {
  const toolCalls = [{ id: "c", name: "a", arguments: text }];
  const [message] = body({ messages: [{ role: "assistant", content: "", toolCalls }] }).messages;
  assert.ok(message?.role === "assistant" && message.tool_calls?.[0]?.type === "function");
  assert.equal(message.tool_calls[0].function.arguments, sent);
});

Deno.test("CHAT_COMPLETIONS.body() offers tools, or describes them only", () => {
  const offered = body({ tools: [tool] });
  assert.deepEqual(offered.tools, [{ type: "function", function: tool }]);
  assert.ok(!("tool_choice" in offered));
  assert.equal(body({ tools: [tool], toolChoice: "none" }).tool_choice, "none");
  assert.ok(!("tools" in body({ tools: [] })));
});

Deno.test("CHAT_COMPLETIONS.body() leaves tools out that it cannot forbid to call", () => {
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

Deno.test("CHAT_COMPLETIONS.body() asks for structured output with the schema", () => {
  const schema = { type: "object", properties: {} };
  assert.deepEqual(body({ jsonSchema: schema }).response_format, {
    type: "json_schema",
    json_schema: { name: "decision", strict: true, schema },
  });
});

Deno.test("CHAT_COMPLETIONS.body() streams only for somebody who listens", () => {
  assert.equal(body({}).stream, false);
  const streamed = body({ onDelta: () => {} });
  assert.equal(streamed.stream, true);
  assert.deepEqual(streamed.stream_options, { include_usage: true });
});
