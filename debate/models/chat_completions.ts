import { fieldsIn, fieldsOf, isObject, type JsonObject, parseJson, textOf } from "../engine/graph/text.ts";
import type { ChatMessage, ModelReply, ModelRequest, ToolCall } from "../engine/ports.ts";
import type { Usage } from "../engine/events.ts";
import { ModelError } from "../engine/ports.ts";
import { takesEffort, takesTemperature, tokenLimitOf } from "./families.ts";

/** A protocol of model servers. */
export interface ChatApi {
  readonly path: string;
  /** The header of the token, unless the provider has another one. */
  readonly keyHeader: string;
  body(request: ModelRequest, model: ChatModel): object;
  /** Creates a reader for one answer. It turns each event, or the whole answer, into a chunk of a chat completion. */
  createReader(): (part: unknown) => unknown;
}

/** Options of the protocol that a model may reject. The request is then sent without them. */
export const REFUSABLE = [
  "temperature",
  "reasoning_effort",
  "response_format",
  "stream_options",
  "tool_choice",
  "max_tokens",
] as const;

export type Refusable = (typeof REFUSABLE)[number];

/** The model, and the options that it is known to reject. */
interface ChatModel {
  readonly name: string;
  readonly maxOutputTokens: number;
  readonly refused: ReadonlySet<Refusable>;
}

/** The number of characters of unreadable arguments that are sent back to the model. */
const MAX_UNREADABLE = 2000;

export const CHAT_COMPLETIONS = {
  path: "chat/completions",
  keyHeader: "authorization",
  body(request, model) {
    const { effort, schema, tools, limit, common } = optionsOf(request, model);
    return {
      model: model.name,
      messages: request.messages.map(messageParam),
      ...common,
      ...(limit !== undefined && { [tokenLimitOf(model.name)]: limit }),
      ...(effort === undefined ? {} : { reasoning_effort: effort }),
      ...(tools.length > 0 && { tools: tools.map((tool) => ({ type: "function", function: { ...tool } })) }),
      ...(schema === undefined ? {} : {
        response_format: { type: "json_schema", json_schema: { name: "decision", strict: true, schema } },
      }),
      ...(request.onDelta === undefined ? { stream: false } : {
        stream: true,
        ...(model.refused.has("stream_options") ? {} : { stream_options: { include_usage: true } }),
      }),
    };
  },
  createReader: () => (part) => part,
} satisfies ChatApi;

/** The options of a request that the model does not reject, for all protocols. */
export function optionsOf(request: ModelRequest, model: ChatModel) {
  const { temperature, reasoningEffort, jsonSchema, tools: all = [], toolChoice } = request;
  const { name, refused, maxOutputTokens } = model;
  const effort = sendsEffort(model) ? reasoningEffort : undefined;
  const takes = !refused.has("temperature") && takesTemperature(name, effort !== undefined);
  // If calls cannot be forbidden, a description of the tools would invite calls.
  const tools = toolChoice !== undefined && refused.has("tool_choice") ? [] : all;
  return {
    effort,
    tools,
    limit: refused.has("max_tokens") ? undefined : maxOutputTokens,
    schema: jsonSchema === undefined || refused.has("response_format") ? undefined : { ...jsonSchema },
    common: {
      ...(temperature !== undefined && takes && { temperature }),
      ...(tools.length > 0 && toolChoice !== undefined && { tool_choice: toolChoice }),
    },
  };
}

export function sendsEffort({ name, refused }: Pick<ChatModel, "name" | "refused">): boolean {
  return takesEffort(name) && !refused.has("reasoning_effort");
}

function messageParam({ role, content, toolCalls = [], toolCallId = "" }: ChatMessage) {
  if (role === "tool") return { role, content, tool_call_id: toolCallId };
  if (role !== "assistant" || toolCalls.length === 0) return { role, content };
  const tool_calls = toolCalls.map(({ id, name, arguments: text, extra }) => ({
    id,
    type: "function",
    function: { name, arguments: readableArguments(text) },
    ...(extra !== undefined && { extra_content: extra }),
  }));
  return { role, content: content || null, tool_calls };
}

/** Some servers parse the arguments of earlier calls, and reject the whole conversation if one is broken. */
export function readableArguments(text: string): string {
  if (isObject(parseJson(text))) return text;
  return text.trim() === "" ? "{}" : JSON.stringify({ unreadable: text.slice(0, MAX_UNREADABLE) });
}

const MAX_TEXT = 200_000;
const MAX_CALLS = 64;
const MAX_ARGUMENTS = 500_000;

function usageOf(value: unknown): Usage | undefined {
  if (!isObject(value)) return undefined;
  const [input_tokens, output_tokens] = [
    countOf(value.prompt_tokens) ?? 0,
    countOf(value.completion_tokens) ?? 0,
  ];
  return {
    input_tokens,
    output_tokens,
    total_tokens: countOf(value.total_tokens) ?? input_tokens + output_tokens,
  };
}

function countOf(value: unknown): number | undefined {
  return Number.isSafeInteger(value) && Number(value) >= 0 ? Number(value) : undefined;
}

/** The text of a content. Blocks without text, such as thoughts, are not part of the reply. */
function contentOf(content: unknown): string {
  const blocks = fieldsIn(content).filter(({ type }) => type === "text" || type === "output_text");
  return textOf(content) + blocks.map(({ text }) => textOf(text)).join("");
}

type OpenCall = { -readonly [K in keyof ToolCall]: ToolCall[K] };

/** Assembles a reply from its chunks. Its errors continue "Model … gave no reply: ". */
export class ReplyAssembler {
  /** The token counts of the provider, if they have arrived. */
  usage: Usage | undefined;
  /** Whether any part of a reply has arrived, even an empty one. */
  hasMessage = false;
  readonly #calls: OpenCall[] = [];
  readonly #callByIndex = new Map<number, OpenCall>();
  #argumentsLength = 0;
  #text = "";
  #finishReason: string | undefined;

  /** Whether the text has reached the maximum length, so that nothing more is added. */
  get isFull(): boolean {
    return this.#text.length >= MAX_TEXT;
  }

  /** Whether the reply is complete, so that only its usage can follow. */
  get isFinished(): boolean {
    return this.#finishReason !== undefined;
  }

  /** Adds a chunk and returns its text. */
  add(value: unknown): string {
    const { usage, choices } = fieldsOf(value);
    this.usage = usageOf(usage) ?? this.usage;
    const choice = fieldsIn(choices).find(({ index }) => (countOf(index) ?? 0) === 0);
    if (choice === undefined) return "";
    this.#finishReason = textOf(choice.finish_reason) || this.#finishReason;
    const piece = isObject(choice.delta) ? choice.delta : choice.message;
    if (!isObject(piece)) return "";
    this.hasMessage = true;
    for (const call of fieldsIn(piece.tool_calls)) this.#addCall(call);
    const [text, room] = [contentOf(piece.content) + textOf(piece.refusal), MAX_TEXT - this.#text.length];
    const added = text.length <= room ? text : text.slice(0, room).toWellFormed();
    this.#text += added;
    return added;
  }

  /** @param turn makes the IDs of calls without an ID unique in the conversation */
  finish(turn: number): ModelReply {
    const { usage } = this;
    if (this.#finishReason === "content_filter" && this.#text === "" && this.#calls.length === 0) {
      const counted = usage === undefined ? {} : { usage };
      throw new ModelError("bad_reply", "the provider withheld the reply (content_filter)", counted);
    }
    const ids = new Set<string>();
    // A call without a name cannot be run or answered.
    const toolCalls = this.#calls.filter(({ name }) => name !== "").map((call, index) => {
      const id = call.id === "" || ids.has(call.id) ? `call_${turn}_${index}` : call.id;
      ids.add(id);
      return { ...call, id };
    });
    const isCut = this.#finishReason === "length" || this.isFull;
    return { text: this.#text, toolCalls, usage, ...(isCut ? { isCut } : {}) };
  }

  #addCall({ id: given, index, function: called, extra_content }: JsonObject): void {
    if (!isObject(called)) return;
    const [id, name] = [textOf(given), textOf(called.name)];
    const text = isObject(called.arguments) ? JSON.stringify(called.arguments) : textOf(called.arguments);
    const open = this.#openCall(id, countOf(index), name);
    // Gemini and Anthropic reject a call without the signature that came with it.
    if (isObject(extra_content)) {
      open.extra = extra_content;
      this.#argumentsLength += JSON.stringify(extra_content).length;
    }
    open.id ||= id;
    open.name ||= name;
    open.arguments += text;
    this.#argumentsLength += text.length;
    if (this.#argumentsLength > MAX_ARGUMENTS || this.#calls.length > MAX_CALLS) {
      throw new ModelError("bad_reply", "the model requested too many tool calls, or too long ones");
    }
  }

  #openCall(id: string, index: number | undefined, name: string): OpenCall {
    const known = index === undefined ? this.#calls.at(-1) : this.#callByIndex.get(index);
    // Some providers send no index, and others send the same index for all calls. A different ID or another name
    // starts a new call.
    const isOther = id === "" ? index === undefined && name !== "" : known?.id !== "" && known?.id !== id;
    if (known !== undefined && !isOther) return known;
    const call: OpenCall = { id: "", name: "", arguments: "" };
    this.#calls.push(call);
    if (index !== undefined) this.#callByIndex.set(index, call);
    return call;
  }
}
