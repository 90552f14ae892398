/**
 * Assembles a chat completion from its chunks or from one piece. Providers differ in what they send, and any
 * of them may send nonsense: what cannot be understood counts as absent, and nothing grows without bound.
 *
 * @module
 */
import * as z from "@zod/zod";
import { ModelError, type ModelReply, type ToolCall, type Usage } from "../engine/model.ts";

/** Where a reply is cut, in characters. */
const MAX_TEXT = 200_000;

/** The most tool calls of a reply. */
const MAX_CALLS = 64;

/** The most characters in the arguments of all of them. */
const MAX_ARGUMENTS = 500_000;

const count = z.int().nonnegative();

const usageShape = z.looseObject({
  prompt_tokens: count.catch(0),
  completion_tokens: count.catch(0),
  total_tokens: count.optional().catch(undefined),
});

const textBlock = z.looseObject({ type: z.enum(["text", "output_text"]), text: z.string() });

/** A list of blocks; those that are not text, such as thoughts, are not part of the reply. */
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

interface OpenCall {
  id: string;
  name: string;
  arguments: string;
}

/** A reply in the making. Its errors continue "Model … gave no reply: ". */
export class ReplyAssembler {
  readonly #calls: OpenCall[] = [];
  readonly #callByIndex = new Map<number, OpenCall>();
  #argumentsLength = 0;
  #text = "";
  #usage: Usage | undefined;
  #finishReason: string | undefined;
  #hasMessage = false;

  /** Whether the text is as long as a reply may be; nothing more is added then. */
  get isFull(): boolean {
    return this.#text.length >= MAX_TEXT;
  }

  /** Whether the provider has said that the reply is complete; only its usage can follow. */
  get isFinished(): boolean {
    return this.#finishReason !== undefined;
  }

  /** Whether any part of a reply has arrived, empty or not. */
  get hasMessage(): boolean {
    return this.#hasMessage;
  }

  /** The usage, as far as the provider has reported it. */
  get usage(): Usage | undefined {
    return this.#usage;
  }

  /**
   * Adds a chunk, or a whole completion.
   *
   * @returns the text that it adds, often none
   * @throws {ModelError} `bad_reply` when there are too many tool calls, or too long ones
   */
  add(value: unknown): string {
    const chunk = chunkShape.safeParse(value).data;
    if (chunk === undefined) return "";
    if (chunk.usage !== undefined) this.#usage = usageOf(chunk.usage);
    const choice = chunk.choices.map((entry) => choiceShape.safeParse(entry).data).find((entry) =>
      entry?.index === 0
    );
    if (choice === undefined) return "";
    if (choice.finish_reason !== null && choice.finish_reason !== "") {
      this.#finishReason = choice.finish_reason;
    }
    const piece = choice.delta ?? choice.message;
    if (piece === undefined) return "";
    this.#hasMessage = true;
    for (const call of piece.tool_calls) this.#addCall(call);
    return this.#addText(piece.content + piece.refusal);
  }

  /**
   * The reply.
   *
   * @param turn makes ids for calls that came without one: no two calls of a conversation may share theirs
   * @throws {ModelError} `bad_reply` when the provider withheld everything
   */
  finish(turn: number): ModelReply {
    if (this.#finishReason === "content_filter" && this.#text === "" && this.#calls.length === 0) {
      throw new ModelError("bad_reply", "the provider withheld it (content_filter)", {
        ...(this.#usage === undefined ? {} : { usage: this.#usage }),
      });
    }
    const ids = new Set<string>();
    const toolCalls: ToolCall[] = [];
    for (const call of this.#calls) {
      // A call without a name can be neither run nor answered.
      if (call.name === "") continue;
      const id = call.id === "" || ids.has(call.id) ? `call_${turn}_${toolCalls.length}` : call.id;
      ids.add(id);
      toolCalls.push({ ...call, id });
    }
    const isCut = this.#finishReason === "length" || this.isFull;
    return { text: this.#text, toolCalls, usage: this.#usage, ...(isCut ? { isCut } : {}) };
  }

  #addText(text: string): string {
    const room = MAX_TEXT - this.#text.length;
    const piece = text.length <= room ? text : text.slice(0, room).toWellFormed();
    this.#text += piece;
    return piece;
  }

  #addCall(value: unknown): void {
    const call = callShape.safeParse(value).data;
    if (call === undefined) return;
    const { id, index, function: { name, arguments: text } } = call;
    const open = this.#openCall({ id, index, name });
    open.id ||= id;
    open.name ||= name;
    open.arguments += text;
    this.#argumentsLength += text.length;
    if (this.#argumentsLength > MAX_ARGUMENTS || this.#calls.length > MAX_CALLS) {
      throw new ModelError("bad_reply", "it asked for too many tool calls, or too long ones");
    }
  }

  /** The call that a piece continues, or a new one. */
  #openCall({ id, index, name }: { id: string; index: number | undefined; name: string }): OpenCall {
    const known = index === undefined ? this.#calls.at(-1) : this.#callByIndex.get(index);
    // Some providers send no index, others the same one for all calls: a different id, or a further name,
    // starts a new call.
    const isOther = id === "" ? index === undefined && name !== "" : known?.id !== "" && known?.id !== id;
    if (known !== undefined && !isOther) return known;
    const call = { id: "", name: "", arguments: "" };
    this.#calls.push(call);
    if (index !== undefined) this.#callByIndex.set(index, call);
    return call;
  }
}

function usageOf({ prompt_tokens, completion_tokens, total_tokens }: z.infer<typeof usageShape>): Usage {
  return {
    input_tokens: prompt_tokens,
    output_tokens: completion_tokens,
    total_tokens: total_tokens ?? prompt_tokens + completion_tokens,
  };
}
