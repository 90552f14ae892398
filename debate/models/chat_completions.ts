import { isObject, parseJson } from "../engine/graph/text.ts";
import * as z from "@zod/zod";
import type { ChatMessage, ModelReply, ModelRequest, ToolCall } from "../engine/ports.ts";
import type { Usage } from "../engine/events.ts";
import { ModelError } from "../engine/ports.ts";
import { takesEffort, takesTemperature, tokenLimitOf } from "./families.ts";

/** A protocol of model servers. */
export interface ChatApi {
  readonly path: string;
  /** The header of the token, unless the provider has another one. */
  readonly keyHeader: string;
  readonly headers?: Readonly<Record<string, string>>;
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

const count = z.int().nonnegative();

const usageShape = z.looseObject({
  prompt_tokens: count.catch(0),
  completion_tokens: count.catch(0),
  total_tokens: count.optional().catch(undefined),
}).transform(({ prompt_tokens, completion_tokens, total_tokens }): Usage => ({
  input_tokens: prompt_tokens,
  output_tokens: completion_tokens,
  total_tokens: total_tokens ?? prompt_tokens + completion_tokens,
}));

const textBlock = z.looseObject({ type: z.enum(["text", "output_text"]), text: z.string() });

/** A list of blocks. Blocks without text, such as thoughts, are not part of the reply. */
const blocks = z.array(z.unknown()).transform((list) =>
  list.map((block) => textBlock.safeParse(block).data?.text ?? "").join("")
);

const callShape = z.looseObject({
  index: z.int().optional().catch(undefined),
  id: z.string().catch(""),
  function: z.looseObject({
    name: z.string().catch(""),
    arguments: z.union([
      z.string(),
      z.record(z.string(), z.unknown()).transform((value) => JSON.stringify(value)),
    ]).catch(""),
  }),
  // Gemini rejects a call without the signature that came with it.
  extra_content: z.record(z.string(), z.unknown()).optional().catch(undefined),
});

const pieceShape = z.looseObject({
  content: z.union([z.string(), blocks]).catch(""),
  refusal: z.string().catch(""),
  tool_calls: z.array(z.unknown()).catch([]),
});

const choiceShape = z.looseObject({
  index: z.int().catch(0),
  delta: pieceShape.optional().catch(undefined),
  message: pieceShape.optional().catch(undefined),
  finish_reason: z.string().nullable().catch(null),
});

const chunkShape = z.looseObject({
  choices: z.array(z.unknown()).catch([]),
  usage: usageShape.optional().catch(undefined),
});

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
    const chunk = chunkShape.safeParse(value).data;
    this.usage = chunk?.usage ?? this.usage;
    const choice = chunk?.choices.map((entry) => choiceShape.safeParse(entry).data).find((entry) =>
      entry?.index === 0
    );
    if (choice === undefined) return "";
    this.#finishReason = choice.finish_reason || this.#finishReason;
    const piece = choice.delta ?? choice.message;
    if (piece === undefined) return "";
    this.hasMessage = true;
    for (const call of piece.tool_calls) this.#addCall(call);
    const [text, room] = [piece.content + piece.refusal, MAX_TEXT - this.#text.length];
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

  #addCall(value: unknown): void {
    const call = callShape.safeParse(value).data;
    if (call === undefined) return;
    const { id, index, function: { name, arguments: text }, extra_content: extra } = call;
    const open = this.#openCall(id, index, name);
    if (extra !== undefined) {
      open.extra = extra;
      this.#argumentsLength += JSON.stringify(extra).length;
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
