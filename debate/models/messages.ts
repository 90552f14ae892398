/** The Messages protocol of Anthropic, in terms of chat completions. */
import { fieldsIn, fieldsOf, isObject, type JsonObject, parseJson, textOf } from "../engine/graph/text.ts";
import type { ChatMessage } from "../engine/ports.ts";
import { type ChatApi, optionsOf, readableArguments } from "./chat_completions.ts";

/** The protocol requires a limit. Every model accepts this one. */
const LEAST_LIMIT = 4096;

export const MESSAGES = {
  path: "messages",
  keyHeader: "x-api-key",
  body(request, model) {
    const { effort, schema, tools, limit, common } = optionsOf(request, model);
    const { tool_choice: type, ...rest } = common;
    const system = request.messages.filter(({ role }) => role === "system").map(({ content }) => content);
    const output_config = {
      ...(effort !== undefined && { effort }),
      ...(schema !== undefined && { format: { type: "json_schema", schema } }),
    };
    return {
      model: model.name,
      max_tokens: limit ?? LEAST_LIMIT,
      messages: turnsOf(request.messages),
      stream: request.onDelta !== undefined,
      ...rest,
      ...(system.length > 0 && { system: system.join("\n\n") }),
      ...(tools.length > 0 && {
        tools: tools.map(({ parameters, ...tool }) => ({ ...tool, input_schema: parameters })),
      }),
      ...(type !== undefined && { tool_choice: { type } }),
      ...(Object.keys(output_config).length > 0 && { output_config }),
    };
  },
  createReader: messagesReader,
} satisfies ChatApi;

/** Messages in alternating roles. All results of a message's calls must be in the next message. */
function turnsOf(messages: readonly ChatMessage[]) {
  const turns: { readonly role: string; readonly content: object[] }[] = [];
  for (const message of messages) {
    if (message.role === "system") continue;
    const role = message.role === "assistant" ? "assistant" : "user";
    const last = turns.at(-1);
    if (last?.role === role) last.content.push(...blocksOf(message));
    else turns.push({ role, content: blocksOf(message) });
  }
  return turns;
}

function blocksOf({ role, content, toolCalls = [], toolCallId = "" }: ChatMessage): object[] {
  if (role === "tool") return [{ type: "tool_result", tool_use_id: toolCallId, content }];
  // Anthropic rejects texts without content.
  const texts = content.trim() === "" ? [] : [{ type: "text", text: content }];
  if (toolCalls.length === 0) return texts;
  return toolCalls.flatMap(({ id, name, arguments: text, extra }, index) => [
    ...fieldsIn(extra?.thoughts),
    ...(index === 0 ? texts : []),
    { type: "tool_use", id, name, input: parseJson(readableArguments(text)) },
  ]);
}

const FINISH_REASONS: ReadonlyMap<unknown, string> = new Map([
  ["max_tokens", "length"],
  ["model_context_window_exceeded", "length"],
  ["refusal", "content_filter"],
]);

const INPUT_COUNTS = ["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"];

function messagesReader() {
  let prompt_tokens = 0;
  /** The thoughts before the next call. Anthropic requires them back, unchanged, with the call. */
  const thoughts: Record<string, unknown>[] = [];

  function toChunk(delta: object, { usage, stop_reason: reason }: JsonObject = {}) {
    const counts = fieldsOf(usage);
    prompt_tokens = INPUT_COUNTS.reduce((sum, name) => sum + (Number(counts[name]) || 0), 0) || prompt_tokens;
    const finish_reason = textOf(reason) === "" ? null : FINISH_REASONS.get(reason) ?? "stop";
    return {
      choices: [{ index: 0, delta, finish_reason }],
      ...(isObject(usage) && { usage: { prompt_tokens, completion_tokens: counts.output_tokens } }),
    };
  }

  /** The chunk for an event or a complete message; `undefined` if it adds nothing. */
  return (value: unknown): unknown => {
    const { type, index, content, content_block, message, ...part } = fieldsOf(value);
    const delta = fieldsOf(part.delta);
    switch (type) {
      case "message":
        return toChunk(deltaOf(content, thoughts), part);
      case "message_start":
        return toChunk({}, fieldsOf(message));
      case "message_delta":
        return toChunk({}, { ...part, ...delta });
      case "content_block_start":
        return toChunk(deltaOf([content_block], thoughts, index));
      case "content_block_delta":
        for (const key of ["thinking", "signature"]) {
          const thought = delta.type === `${key}_delta` ? thoughts.at(-1) : undefined;
          if (thought !== undefined) thought[key] = textOf(thought[key]) + textOf(delta[key]);
        }
        return delta.partial_json === undefined
          ? toChunk({ content: delta.text })
          : toChunk({ tool_calls: [{ index, function: { arguments: delta.partial_json } }] });
    }
    return undefined;
  };
}

/** The reply that blocks contain. `first` is the index of the first block. */
function deltaOf(content: unknown, thoughts: Record<string, unknown>[], first: unknown = 0) {
  const blocks = fieldsIn(content);
  const tool_calls = blocks.flatMap((block, index) => {
    const { type, id, name, input } = block;
    if (type === "thinking" || type === "redacted_thinking") thoughts.push({ ...block });
    if (type !== "tool_use") return [];
    // In a stream, the input begins as an empty object, and its JSON follows in pieces.
    const isEmpty = Object.keys(fieldsOf(input)).length === 0;
    return [{
      index: Number(first) + index,
      id,
      function: { name, arguments: isEmpty ? "" : input },
      ...(thoughts.length > 0 && { extra_content: { thoughts: thoughts.splice(0) } }),
    }];
  });
  return { content: blocks, tool_calls };
}
