/** The Messages protocol of Anthropic, in terms of chat completions. */
import * as z from "@zod/zod";
import { isObject, parseJson } from "../engine/graph/text.ts";
import type { ChatMessage } from "../engine/ports.ts";
import { type ChatApi, optionsOf, readableArguments } from "./chat_completions.ts";

/** The protocol requires a limit. Every model accepts this one. */
const LEAST_LIMIT = 4096;

export const MESSAGES = {
  path: "messages",
  keyHeader: "x-api-key",
  headers: { "anthropic-version": "2023-06-01" },
  body(request, model) {
    const { effort, schema, tools, limit, common } = optionsOf(request, model);
    const { temperature, tool_choice } = common;
    const system = request.messages.filter(({ role }) => role === "system").map(({ content }) => content);
    const output_config = {
      ...(effort !== undefined && { effort }),
      ...(schema !== undefined && { format: { type: "json_schema", schema } }),
    };
    return {
      model: model.name,
      max_tokens: limit ?? LEAST_LIMIT,
      ...(system.length > 0 && { system: system.join("\n\n") }),
      messages: turnsOf(request.messages),
      stream: request.onDelta !== undefined,
      ...(temperature !== undefined && { temperature }),
      ...(tools.length > 0 && {
        tools: tools.map(({ name, description, parameters }) => (
          { name, description, input_schema: parameters }
        )),
      }),
      ...(tool_choice !== undefined && { tool_choice: { type: tool_choice } }),
      ...(Object.keys(output_config).length > 0 && { output_config }),
    };
  },
  createReader: messagesReader,
} satisfies ChatApi;

/** Messages in alternating roles. All results of a message's calls must be in the next message. */
function turnsOf(messages: readonly ChatMessage[]) {
  const turns: { readonly role: "user" | "assistant"; readonly content: object[] }[] = [];
  for (const message of messages) {
    if (message.role === "system") continue;
    const role = message.role === "assistant" ? "assistant" : "user";
    const last = turns.at(-1);
    if (last?.role === role) last.content.push(...blocksOf(message));
    else turns.push({ role, content: blocksOf(message) });
  }
  // Anthropic rejects messages and texts without content.
  return turns.filter(({ content }) => content.length > 0);
}

function blocksOf({ role, content, toolCalls = [], toolCallId = "" }: ChatMessage): object[] {
  if (role === "tool") return [{ type: "tool_result", tool_use_id: toolCallId, content }];
  const texts = content.trim() === "" ? [] : [{ type: "text", text: content }];
  return [
    ...texts,
    ...toolCalls.map(({ id, name, arguments: text }) => (
      { type: "tool_use", id, name, input: parseJson(readableArguments(text)) }
    )),
  ];
}

const word = z.string().catch("");
const count = z.int().nonnegative().catch(0);

const usageShape = z.looseObject({
  input_tokens: count,
  cache_creation_input_tokens: count,
  cache_read_input_tokens: count,
  output_tokens: count,
}).optional().catch(undefined);

/** Other blocks, such as thoughts, are not part of the reply. */
const blockShape = z.discriminatedUnion("type", [
  z.looseObject({ type: z.literal("text"), text: word }),
  z.looseObject({ type: z.literal("tool_use"), id: word, name: word, input: z.unknown() }),
]);

const messageShape = z.looseObject({
  content: z.array(z.unknown()).catch([]),
  stop_reason: z.string().nullable().catch(null),
  usage: usageShape,
});

const partShape = z.discriminatedUnion("type", [
  messageShape.extend({ type: z.literal("message") }),
  z.looseObject({ type: z.literal("message_start"), message: messageShape }),
  z.looseObject({ type: z.literal("content_block_start"), index: count, content_block: z.unknown() }),
  z.looseObject({
    type: z.literal("content_block_delta"),
    index: count,
    delta: z.looseObject({ text: word, partial_json: word }),
  }),
  z.looseObject({
    type: z.literal("message_delta"),
    delta: messageShape.pick({ stop_reason: true }),
    usage: usageShape,
  }),
]);

const FINISH_REASONS: Readonly<Record<string, string>> = {
  max_tokens: "length",
  model_context_window_exceeded: "length",
  refusal: "content_filter",
};

function messagesReader() {
  let inputTokens = 0;

  function end(reason: string | null, usage: z.infer<typeof usageShape>, delta: object = {}) {
    inputTokens = inputOf(usage) || inputTokens;
    const finish_reason = reason === null ? null : FINISH_REASONS[reason] ?? "stop";
    return {
      choices: [{ index: 0, delta, finish_reason }],
      ...(usage !== undefined && {
        usage: { prompt_tokens: inputTokens, completion_tokens: usage.output_tokens },
      }),
    };
  }

  /** The chunk for an event or a complete message; `undefined` if it adds nothing. */
  return (value: unknown): unknown => {
    const part = partShape.safeParse(value).data;
    switch (part?.type) {
      case "message":
        return end(part.stop_reason ?? "end_turn", part.usage, deltaOf(part.content, 0));
      case "message_start":
        return end(null, part.message.usage);
      case "content_block_start":
        return toChunk(deltaOf([part.content_block], part.index));
      case "content_block_delta": {
        const { text, partial_json } = part.delta;
        if (partial_json === "") return toChunk({ content: text });
        return toChunk({ tool_calls: [{ index: part.index, function: { arguments: partial_json } }] });
      }
      case "message_delta":
        return end(part.delta.stop_reason, part.usage);
    }
    return undefined;
  };
}

function toChunk(delta: object) {
  return { choices: [{ index: 0, delta }] };
}

/** The reply that blocks contain. `first` is the index of the first block. */
function deltaOf(content: readonly unknown[], first: number) {
  const blocks = content.map((each) => blockShape.safeParse(each).data);
  return {
    content: blocks.map((block) => block?.type === "text" ? block.text : "").join(""),
    tool_calls: blocks.flatMap((block, index) => {
      if (block?.type !== "tool_use") return [];
      const { id, name, input } = block;
      // In a stream, the input begins as an empty object, and its JSON follows in pieces.
      const text = isObject(input) && Object.keys(input).length > 0 ? JSON.stringify(input) : "";
      return [{ index: first + index, id, function: { name, arguments: text } }];
    }),
  };
}

function inputOf(usage: z.infer<typeof usageShape>): number {
  if (usage === undefined) return 0;
  return usage.input_tokens + usage.cache_creation_input_tokens + usage.cache_read_input_tokens;
}
