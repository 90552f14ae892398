import * as z from "@zod/zod";
import assert from "node:assert/strict";
import type { ChatMessage, ModelRequest } from "../../debate/engine/ports.ts";
import { requestOf } from "../../debate/testing/chat_provider.ts";
import { providersOf } from "./debate_models_fixture.ts";

/** The request body of the responses protocol. It rejects fields of chat completions. */
const responsesRequest = z.strictObject({
  model: z.string(),
  input: z.array(z.union([
    z.strictObject({ role: z.enum(["system", "user", "assistant"]), content: z.string() }),
    z.strictObject({
      type: z.literal("function_call"),
      call_id: z.string().min(1),
      name: z.string(),
      arguments: z.string().refine((text) => typeof JSON.parse(text) === "object"),
    }),
    z.strictObject({ type: z.literal("function_call_output"), call_id: z.string(), output: z.string() }),
  ])),
  store: z.literal(false),
  max_output_tokens: z.int(),
  stream: z.boolean(),
  reasoning: z.strictObject({ effort: z.enum(["low", "medium", "high"]) }).optional(),
  tools: z.array(z.strictObject({
    type: z.literal("function"),
    name: z.string(),
    description: z.string(),
    parameters: z.looseObject({ type: z.literal("object") }),
    strict: z.literal(false),
  })).optional(),
  tool_choice: z.literal("none").optional(),
  text: z.looseObject({ format: z.looseObject({ type: z.literal("json_schema") }) }).optional(),
});

type ResponsesRequest = z.infer<typeof responsesRequest>;

/** A strict server: each call must be answered, and an invalid body gets status 400. */
function startProvider() {
  const paths: string[] = [];
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, async (request) => {
    const { pathname } = new URL(request.url);
    paths.push(pathname);
    assert.equal(request.headers.get("authorization"), "Bearer assist-token");
    if (pathname !== "/responses") {
      const error = { message: "not by this path", code: "unsupported_api_for_model" };
      return Response.json({ error }, { status: 400 });
    }
    const { data: body, error } = responsesRequest.safeParse(await request.json());
    if (body === undefined) return refuse(error.issues[0]?.path.join(".") ?? "", error.message);
    const open = unanswered(body);
    if (open.length > 0) return refuse("input", `No tool output found for function call ${open[0]}`);
    return answer(body);
  });
  return {
    paths,
    url: `http://127.0.0.1:${server.addr.port}`,
    [Symbol.asyncDispose]: () => server.shutdown(),
  };
}

function refuse(param: string, message: string): Response {
  return Response.json({ error: { message, param, type: "invalid_request_error" } }, { status: 400 });
}

function unanswered({ input }: ResponsesRequest): readonly string[] {
  const answered = new Set(
    input.flatMap((item) => "type" in item && item.type === "function_call_output" ? [item.call_id] : []),
  );
  return input.flatMap((item) =>
    "type" in item && item.type === "function_call" && !answered.has(item.call_id) ? [item.call_id] : []
  );
}

/** Requests two calls first, and writes the text when they are answered. */
function answer({ input, stream }: ResponsesRequest): Response {
  const hasResults = input.some((item) => "type" in item && item.type === "function_call_output");
  const output = hasResults ? [textItem("The pool is empty.")] : [callItem(1), callItem(2)];
  const response = {
    id: "resp_1",
    object: "response",
    status: "completed",
    output,
    usage: { input_tokens: 20, output_tokens: 5, total_tokens: 25 },
  };
  return stream ? streamOf(response) : Response.json(response);
}

const textItem = (text: string) => ({
  type: "message",
  id: "msg_1",
  role: "assistant",
  content: [{ type: "output_text", text, annotations: [] }],
});

const callItem = (number: number) => ({
  type: "function_call",
  id: `fc_${number}`,
  call_id: `call_${number}`,
  name: "http_get",
  arguments: JSON.stringify({ url: `http://a.test/${number}` }),
});

type Item = ReturnType<typeof textItem> | ReturnType<typeof callItem>;

/** The events of a response, in pieces that split them in the middle. */
function streamOf(response: { readonly output: readonly Item[] }): Response {
  const events: { readonly type: string; readonly [key: string]: unknown }[] = [
    { type: "response.created", response: { ...response, status: "in_progress", output: [] } },
  ];
  for (const [output_index, item] of response.output.entries()) {
    events.push({ type: "response.output_item.added", output_index, item });
    if ("content" in item) {
      const text = item.content[0]?.text ?? "";
      for (const delta of text.match(/.{1,4}/g) ?? []) {
        events.push({ type: "response.output_text.delta", output_index, item_id: item.id, delta });
      }
      events.push({ type: "response.output_text.done", output_index, text });
    } else {
      const { arguments: delta, id: item_id } = item;
      events.push({ type: "response.function_call_arguments.delta", output_index, item_id, delta });
      events.push({ type: "response.function_call_arguments.done", output_index, item_id, arguments: delta });
    }
    events.push({ type: "response.output_item.done", output_index, item });
  }
  events.push({ type: "response.completed", response });
  const text = events.map((event, sequence_number) =>
    `event: ${event.type}\ndata: ${JSON.stringify({ ...event, sequence_number })}\n\n`
  ).join("");
  const pieces = text.match(/[^]{1,37}/g) ?? [];
  const bytes = ReadableStream.from(pieces).pipeThrough(new TextEncoderStream());
  return new Response(bytes, { headers: { "content-type": "text/event-stream" } });
}

const TOOL = { name: "http_get", description: "gets", parameters: { type: "object", properties: {} } };

function providersAt(url: string) {
  const settings = { ASSIST_TOKEN: "assist-token", ASSIST_BASE_URL: url };
  return providersOf({ ...settings, HUB_TOKEN: "assist-token", HUB_BASE_URL: url });
}

const askedOf = (messages: readonly ChatMessage[], more: Partial<ModelRequest> = {}) =>
  requestOf({ messages, tools: [TOOL], reasoningEffort: "medium", ...more });

Deno.test.each([
  { name: "streamed", isStreamed: true },
  { name: "whole", isStreamed: false },
])("a model of the responses protocol calls tools and answers ($name)", async ({ isStreamed }) => {
  await using server = startProvider();
  using fixture = providersAt(server.url);
  const model = await fixture.providers.model("assist/gpt-5.5");
  const deltas: string[] = [];
  const listening = isStreamed ? { onDelta: (text: string) => deltas.push(text) } : {};
  const question: ChatMessage[] = [
    { role: "system", content: "You diagnose." },
    { role: "user", content: "Why?" },
  ];
  const first = await model.complete(askedOf(question, listening));
  assert.deepEqual(first.toolCalls.map(({ id, arguments: text }) => [id, JSON.parse(text).url]), [
    ["call_1", "http://a.test/1"],
    ["call_2", "http://a.test/2"],
  ]);
  assert.deepEqual(deltas, []);
  const second = await model.complete(askedOf([
    ...question,
    { role: "assistant", content: first.text, toolCalls: first.toolCalls },
    ...first.toolCalls.map(({ id }) => ({ role: "tool" as const, content: "200 OK", toolCallId: id })),
  ], { ...listening, toolChoice: "none" }));
  assert.deepEqual(second, {
    text: "The pool is empty.",
    toolCalls: [],
    usage: { input_tokens: 20, output_tokens: 5, total_tokens: 25 },
  });
  assert.equal(deltas.join(""), isStreamed ? "The pool is empty." : "");
  assert.equal(deltas.length > 1, isStreamed);
  assert.deepEqual(server.paths, ["/responses", "/responses"]);
});

Deno.test.each([
  { id: "assist/gpt-5-5-codex", path: "/responses" },
  { id: "assist/gpt-5", path: "/chat/completions" },
  { id: "assist/gpt-4o", path: "/chat/completions" },
  { id: "hub/openai/gpt-5.5", path: "/chat/completions" },
])("$id is called at $path", async ({ id, path }) => {
  await using server = startProvider();
  using fixture = providersAt(server.url);
  const model = await fixture.providers.model(id);
  await model.complete(askedOf([{ role: "user", content: "Why?" }])).catch(() => {});
  assert.equal(server.paths[0], path);
});
