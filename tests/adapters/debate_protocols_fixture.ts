/** Strict model servers, written from the vendors' descriptions of their protocols. */
import * as z from "@zod/zod";
import assert from "node:assert/strict";
import type { Protocol } from "../../debate/settings/model_providers.ts";

export const KEY = "key-of-the-test";

interface Call {
  readonly id: string;
  readonly name: string;
  readonly arguments: string;
}

export interface Reply {
  readonly text: string;
  readonly calls: readonly Call[];
}

/** The wire format of a protocol. */
export interface Wire {
  readonly protocol: Protocol;
  readonly path: string;
  readonly keyHeader: Readonly<Record<string, string>>;
  /** The body of a request. Every other field is an error. */
  readonly body: z.ZodType<{ readonly stream: boolean }>;
  /** The calls, and the IDs of their results, in the order of the conversation. */
  conversation(body: unknown): { readonly calls: readonly string[]; readonly results: readonly string[] };
  whole(reply: Reply): object;
  events(reply: Reply): readonly object[];
  /** The end of a stream after its last event. */
  readonly end: string;
  error(message: string): object;
}

const schema = z.looseObject({ type: z.literal("object") });
const jsonText = z.string().refine((text) => typeof JSON.parse(text) === "object");
const named = { name: z.string(), description: z.string() };
const FORMAT = { type: z.literal("json_schema"), schema };
const usage = { input: 20, output: 5, total: 25 };
const pieces = (text: string) => text.match(/[^]{1,4}/g) ?? [];

/** https://platform.openai.com/docs/api-reference/chat */
const chat: Wire = {
  protocol: "openai",
  path: "/v1/chat/completions",
  keyHeader: { authorization: `Bearer ${KEY}` },
  body: z.strictObject({
    model: z.string(),
    messages: z.array(z.union([
      z.strictObject({ role: z.enum(["system", "user", "assistant"]), content: z.string() }),
      z.strictObject({
        role: z.literal("assistant"),
        content: z.string().nullable(),
        tool_calls: z.array(z.strictObject({
          id: z.string().min(1),
          type: z.literal("function"),
          function: z.strictObject({ name: z.string(), arguments: jsonText }),
        })),
      }),
      z.strictObject({ role: z.literal("tool"), tool_call_id: z.string(), content: z.string() }),
    ])),
    max_completion_tokens: z.int().optional(),
    max_tokens: z.int().optional(),
    temperature: z.number().optional(),
    reasoning_effort: z.enum(["low", "medium", "high"]).optional(),
    tools: z.array(z.strictObject({
      type: z.literal("function"),
      function: z.strictObject({ ...named, parameters: schema }),
    })).optional(),
    tool_choice: z.literal("none").optional(),
    response_format: z.looseObject({ type: z.literal("json_schema") }).optional(),
    stream: z.boolean(),
    stream_options: z.strictObject({ include_usage: z.literal(true) }).optional(),
  }),
  conversation(body) {
    const { messages } = body as { messages: { tool_calls?: { id: string }[]; tool_call_id?: string }[] };
    return {
      calls: messages.flatMap(({ tool_calls = [] }) => tool_calls.map(({ id }) => id)),
      results: messages.flatMap(({ tool_call_id }) => tool_call_id ?? []),
    };
  },
  whole: ({ text, calls }) => ({
    choices: [{
      index: 0,
      message: { role: "assistant", content: text || null, tool_calls: calls.map(chatCall) },
      finish_reason: calls.length > 0 ? "tool_calls" : "stop",
    }],
    usage: chatUsage,
  }),
  events: ({ text, calls }) => [
    chunk({ role: "assistant", content: "" }),
    ...pieces(text).map((content) => chunk({ content })),
    ...calls.flatMap(({ id, name, arguments: json }, index) => [
      chunk({ tool_calls: [{ index, id, type: "function", function: { name, arguments: "" } }] }),
      ...pieces(json).map((part) => chunk({ tool_calls: [{ index, function: { arguments: part } }] })),
    ]),
    { choices: [{ index: 0, delta: {}, finish_reason: calls.length > 0 ? "tool_calls" : "stop" }] },
    { choices: [], usage: chatUsage },
  ],
  end: "data: [DONE]\n\n",
  error: (message) => ({ error: { message, type: "invalid_request_error", param: null, code: null } }),
};

const chatUsage = {
  prompt_tokens: usage.input,
  completion_tokens: usage.output,
  total_tokens: usage.total,
};
const chunk = (delta: object) => ({ choices: [{ index: 0, delta, finish_reason: null }] });
const chatCall = ({ id, ...rest }: Call) => ({ id, type: "function", function: rest });

/** https://platform.openai.com/docs/api-reference/responses */
const responses: Wire = {
  protocol: "openai-responses",
  path: "/v1/responses",
  keyHeader: { authorization: `Bearer ${KEY}` },
  body: z.strictObject({
    model: z.string(),
    input: z.array(z.union([
      z.strictObject({ role: z.enum(["system", "user", "assistant"]), content: z.string() }),
      z.strictObject({
        type: z.literal("function_call"),
        call_id: z.string().min(1),
        name: z.string(),
        arguments: jsonText,
      }),
      z.strictObject({ type: z.literal("function_call_output"), call_id: z.string(), output: z.string() }),
    ])),
    store: z.literal(false),
    max_output_tokens: z.int(),
    temperature: z.number().optional(),
    stream: z.boolean(),
    reasoning: z.strictObject({ effort: z.enum(["low", "medium", "high"]) }).optional(),
    tools: z.array(
      z.strictObject({ type: z.literal("function"), ...named, parameters: schema, strict: z.literal(false) }),
    )
      .optional(),
    tool_choice: z.literal("none").optional(),
    text: z.looseObject({ format: z.looseObject(FORMAT) }).optional(),
  }),
  conversation(body) {
    const { input } = body as { input: { type?: string; call_id: string }[] };
    const idsOf = (type: string) => input.filter((item) => item.type === type).map(({ call_id }) => call_id);
    return { calls: idsOf("function_call"), results: idsOf("function_call_output") };
  },
  whole: (reply) => ({
    id: "resp_1",
    object: "response",
    status: "completed",
    output: itemsOf(reply),
    usage: { input_tokens: usage.input, output_tokens: usage.output, total_tokens: usage.total },
  }),
  events(reply) {
    const response = this.whole(reply);
    return [
      { type: "response.created", response: { ...response, status: "in_progress", output: [] } },
      ...pieces(reply.text).map((delta) => ({ type: "response.output_text.delta", output_index: 0, delta })),
      ...itemsOf(reply).flatMap((item, output_index) => [
        { type: "response.output_item.added", output_index, item },
        { type: "response.output_item.done", output_index, item },
      ]),
      { type: "response.completed", response },
    ];
  },
  end: "",
  error: chat.error,
};

function itemsOf({ text, calls }: Reply) {
  const content = [{ type: "output_text", text, annotations: [] }];
  const message = { type: "message", id: "msg_1", role: "assistant", content };
  return [
    ...(text === "" ? [] : [message]),
    ...calls.map(({ id, ...call }) => ({ type: "function_call", id: `fc_${id}`, call_id: id, ...call })),
  ];
}

const THOUGHT = { type: "thinking" as const, thinking: "Let me look.", signature: "c2lnbmVk" };

/** https://platform.claude.com/docs/en/api/messages */
const messages: Wire = {
  protocol: "anthropic",
  path: "/v1/messages",
  keyHeader: { "x-api-key": KEY, "anthropic-version": "2023-06-01" },
  body: z.strictObject({
    model: z.string(),
    max_tokens: z.int(),
    system: z.string().min(1).optional(),
    messages: z.array(z.strictObject({
      role: z.enum(["user", "assistant"]),
      content: z.array(z.union([
        z.strictObject({ type: z.literal("text"), text: z.string().regex(/\S/) }),
        z.strictObject({
          type: z.literal("tool_use"),
          id: z.string().regex(/^[\w-]+$/),
          name: z.string().regex(/^[\w-]{1,128}$/),
          input: z.record(z.string(), z.unknown()),
        }),
        z.strictObject({ type: z.literal("tool_result"), tool_use_id: z.string(), content: z.string() }),
        z.strictObject({
          type: z.literal("thinking"),
          thinking: z.literal(THOUGHT.thinking),
          signature: z.literal(THOUGHT.signature),
        }),
      ])).min(1).refine(
        (blocks) => blocks[0]?.type === "thinking" || blocks.every(({ type }) => type !== "tool_use"),
        "a call needs the thoughts before it",
      ),
    })).refine(
      (turns) => turns.every(({ role }, index) => role === (index % 2 === 0 ? "user" : "assistant")),
      "roles must alternate",
    ),
    temperature: z.number().optional(),
    tools: z.array(z.strictObject({ ...named, input_schema: schema })).optional(),
    tool_choice: z.strictObject({ type: z.literal("none") }).optional(),
    output_config: z.strictObject({
      effort: z.enum(["low", "medium", "high"]).optional(),
      format: z.strictObject(FORMAT).optional(),
    }).optional(),
    stream: z.boolean(),
  }),
  conversation(body) {
    const turns = (body as { messages: { content: { id?: string; tool_use_id?: string }[] }[] }).messages;
    const blocks = turns.flatMap(({ content }) => content);
    return {
      calls: blocks.flatMap(({ id }) => id ?? []),
      results: blocks.flatMap(({ tool_use_id }) => tool_use_id ?? []),
    };
  },
  whole: (reply) => ({
    id: "msg_1",
    type: "message",
    role: "assistant",
    content: blocksOf(reply),
    stop_reason: reply.calls.length > 0 ? "tool_use" : "end_turn",
    usage: { input_tokens: 12, cache_read_input_tokens: 8, output_tokens: usage.output },
  }),
  events: (reply) => [
    {
      type: "message_start",
      message: {
        id: "msg_1",
        type: "message",
        role: "assistant",
        content: [],
        stop_reason: null,
        usage: { input_tokens: 12, cache_read_input_tokens: 8, output_tokens: 1 },
      },
    },
    { type: "ping" },
    ...blocksOf(reply).flatMap((block, index) => {
      const [start, deltas] = "text" in block
        ? [{ ...block, text: "" }, pieces(block.text).map((text) => ({ type: "text_delta", text }))]
        : "thinking" in block
        ? [
          { ...block, thinking: "", signature: "" },
          [
            ...pieces(block.thinking).map((thinking) => ({ type: "thinking_delta", thinking })),
            { type: "signature_delta", signature: block.signature },
          ],
        ]
        : [
          { ...block, input: {} },
          pieces(JSON.stringify(block.input)).map((partial_json) => (
            { type: "input_json_delta", partial_json }
          )),
        ];
      return [
        { type: "content_block_start", index, content_block: start },
        ...deltas.map((delta) => ({ type: "content_block_delta", index, delta })),
        { type: "content_block_stop", index },
      ];
    }),
    {
      type: "message_delta",
      delta: { stop_reason: reply.calls.length > 0 ? "tool_use" : "end_turn", stop_sequence: null },
      usage: { output_tokens: usage.output },
    },
    { type: "message_stop" },
  ],
  end: "",
  error: (message) => ({ type: "error", error: { type: "invalid_request_error", message } }),
};

function blocksOf({ text, calls }: Reply) {
  return [
    ...(calls.length > 0 ? [THOUGHT] : []),
    ...(text === "" ? [] : [{ type: "text" as const, text }]),
    ...calls.map(({ id, name, arguments: json }) => (
      { type: "tool_use" as const, id, name, input: JSON.parse(json) }
    )),
  ];
}

export const WIRES: readonly Wire[] = [chat, responses, messages];

/** The events of a stream, each with its name where it has one. */
export function streamText(events: readonly object[]): string {
  return events.map((event) => {
    const name = "type" in event ? `event: ${event.type}\n` : "";
    return `${name}data: ${JSON.stringify(event)}\n\n`;
  }).join("");
}

/** A server that checks each request, requests two calls first, and writes the text after their results. */
export function startStrictServer(wire: Wire, replies: readonly [asks: Reply, answers: Reply]) {
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, async (request) => {
    assert.equal(new URL(request.url).pathname, wire.path);
    for (const [name, value] of Object.entries(wire.keyHeader)) {
      assert.equal(request.headers.get(name), value, name);
    }
    const { data: body, error } = wire.body.safeParse(await request.json());
    if (body === undefined) return Response.json(wire.error(error.message), { status: 400 });
    const { calls, results } = wire.conversation(body);
    if (String(calls) !== String(results)) {
      return Response.json(wire.error("a call without a result"), { status: 400 });
    }
    const reply = replies[calls.length === 0 ? 0 : 1];
    if (!body.stream) return Response.json(wire.whole(reply));
    // The pieces split events in the middle.
    const text = streamText(wire.events(reply)) + wire.end;
    const bytes = ReadableStream.from(text.match(/[^]{1,37}/g) ?? []).pipeThrough(new TextEncoderStream());
    return new Response(bytes, { headers: { "content-type": "text/event-stream" } });
  });
  return {
    url: `http://127.0.0.1:${server.addr.port}/v1`,
    [Symbol.asyncDispose]: () => server.shutdown(),
  };
}
