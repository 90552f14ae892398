/**
 * A model request as the body of a chat completion.
 *
 * @module
 */
import { parseStandardJson } from "@gateway/shared/json";
import type { OpenAI } from "@openai/openai";
import { takesEffort, takesTemperature } from "./families.ts";
import type { ChatMessage, ModelRequest, ToolCall } from "../engine/model.ts";

/** Options that a model may refuse although its protocol has them. The request is then sent without them. */
export const REFUSABLE = [
  "temperature",
  "reasoning_effort",
  "response_format",
  "stream_options",
  "tool_choice",
] as const;

/** One of {@linkcode REFUSABLE}. */
export type Refusable = (typeof REFUSABLE)[number];

/** The body of a request, streamed or not. */
type ChatBody = OpenAI.Chat.ChatCompletionCreateParams;

/** The model, and what it is known to refuse. */
export interface ChatModel {
  readonly name: string;
  readonly refused: ReadonlySet<Refusable>;
}

/** How much of unreadable arguments is sent back to the model, in characters. */
const MAX_UNREADABLE = 2000;

export function chatBody(request: ModelRequest, model: ChatModel): ChatBody {
  const { temperature, reasoningEffort, jsonSchema, tools = [], toolChoice } = request;
  const may = (option: Refusable) => !model.refused.has(option);
  const withTools = sendsTools(request, model);
  return {
    model: model.name,
    messages: request.messages.map(messageParam),
    ...(temperature !== undefined && sendsTemperature(request, model) ? { temperature } : {}),
    ...(reasoningEffort !== undefined && sendsEffort(model) ? { reasoning_effort: reasoningEffort } : {}),
    ...(withTools ? { tools: tools.map((tool) => ({ type: "function", function: { ...tool } })) } : {}),
    ...(withTools && toolChoice !== undefined ? { tool_choice: toolChoice } : {}),
    ...(jsonSchema !== undefined && may("response_format")
      ? {
        response_format: {
          type: "json_schema",
          json_schema: { name: "decision", strict: true, schema: { ...jsonSchema } },
        },
      }
      : {}),
    ...(request.onDelta === undefined ? { stream: false } : {
      stream: true,
      ...(may("stream_options") ? { stream_options: { include_usage: true } } : {}),
    }),
  };
}

/** Whether a reasoning effort would be sent. */
export function sendsEffort({ name, refused }: ChatModel): boolean {
  return takesEffort(name) && !refused.has("reasoning_effort");
}

/** Whether a temperature would be sent. */
export function sendsTemperature({ reasoningEffort }: ModelRequest, model: ChatModel): boolean {
  const withEffort = reasoningEffort !== undefined && sendsEffort(model);
  return !model.refused.has("temperature") && takesTemperature(model.name, withEffort);
}

/** Whether tools are described. Unless calls can be forbidden, a description would invite them. */
export function sendsTools({ tools = [], toolChoice }: ModelRequest, { refused }: ChatModel): boolean {
  return tools.length > 0 && (toolChoice === undefined || !refused.has("tool_choice"));
}

function messageParam(message: ChatMessage): OpenAI.Chat.ChatCompletionMessageParam {
  const { content, toolCalls = [], toolCallId = "" } = message;
  switch (message.role) {
    case "assistant":
      if (toolCalls.length === 0) return { role: "assistant", content };
      return { role: "assistant", content: content || null, tool_calls: toolCalls.map(toolCallParam) };
    case "tool":
      return { role: "tool", content, tool_call_id: toolCallId };
    case "system":
    case "user":
      return { role: message.role, content };
  }
  return message.role satisfies never;
}

function toolCallParam({ id, name, arguments: text }: ToolCall) {
  return { id, type: "function" as const, function: { name, arguments: readableArguments(text) } };
}

/** Some servers parse the arguments of earlier calls, and would refuse the whole conversation for a broken one. */
export function readableArguments(text: string): string {
  try {
    const value: unknown = parseStandardJson(text);
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return text;
  } catch {
    // Sent as plain text, below.
  }
  return text.trim() === "" ? "{}" : JSON.stringify({ unreadable: text.slice(0, MAX_UNREADABLE) });
}
