/**
 * A language model as the debate sees it: it takes messages and returns one reply. Providers, retries, prices and
 * sessions are hidden behind it.
 *
 * @module
 */
import type { NodeName } from "./graph/state.ts";

/** A tool call that a model asks for. */
export interface ToolCall {
  /** The model's own id for it; may be anything, even empty. */
  readonly id: string;
  readonly name: string;
  /** The raw text as the model wrote it; it should be a JSON object. */
  readonly arguments: string;
}

export interface ChatMessage {
  readonly role: "system" | "user" | "assistant" | "tool";
  readonly content: string;
  /** The tool calls that an assistant asked for. */
  readonly toolCalls?: readonly ToolCall[];
  /** In a message of role `tool`: the id of the call that it answers. */
  readonly toolCallId?: string;
}

/** A tool as it is described to a model. */
export interface ToolSchema {
  readonly name: string;
  readonly description: string;
  readonly parameters: Readonly<Record<string, unknown>>;
}

/** How hard a model is asked to think. */
export type ReasoningEffort = "low" | "medium" | "high";

export interface ModelRequest {
  readonly messages: readonly ChatMessage[];
  /** Absent: the model gets no tools. */
  readonly tools?: readonly ToolSchema[];
  /**
   * `none`: the tools are described, because the messages refer to them, but may not be called any more. A
   * provider that cannot express this leaves the tools out.
   */
  readonly toolChoice?: "none";
  /** A provider leaves it out for models that refuse one. */
  readonly temperature: number | undefined;
  readonly reasoningEffort?: ReasoningEffort;
  /** JSON schema that the text must match, for providers with structured output; others leave it out. */
  readonly jsonSchema?: Readonly<Record<string, unknown>>;
  readonly signal: AbortSignal;
  /** Receives the text as it arrives, in non-empty pieces; absent if nobody wants it piece by piece. */
  onDelta?(text: string): void;
  readonly purpose: NodeName;
  /** The round, from 1. */
  readonly round: number;
}

/** Token counts, as reported by the provider. */
export interface Usage {
  readonly input_tokens: number;
  readonly output_tokens: number;
  readonly total_tokens: number;
  /** The provider said nothing, at least of a part: it is counted by its characters. */
  readonly estimated?: true;
}

export interface ModelReply {
  /** The whole text; empty when there is none. */
  readonly text: string;
  readonly toolCalls: readonly ToolCall[];
  /** `undefined` when the provider did not say. */
  readonly usage: Usage | undefined;
  /** The provider ended it at its limit of length. */
  readonly isCut?: true;
  /** Whether an effort was requested although this model has no such setting. */
  readonly effortIgnored?: boolean;
}

/** A model that can be called. */
export interface Model {
  readonly id: string;
  /** @throws {ModelError} and nothing else */
  complete(request: ModelRequest): Promise<ModelReply>;
}

/** Why a model gave no reply. */
export type ModelErrorKind =
  /** There is no token, or it was refused. */
  | "auth"
  /** Too many requests, even after retries. */
  | "rate"
  | "timeout"
  /** The provider failed or cannot be reached, even after retries; or broke off in the middle. */
  | "server"
  /** The provider refuses the request itself, or its answer cannot be read. */
  | "bad_reply"
  | "canceled";

/**
 * A model's failure. The message is for people and goes into events, so it contains no tokens, addresses or raw
 * bodies.
 */
export class ModelError extends Error {
  override readonly name = "ModelError";
  readonly kind: ModelErrorKind;
  /** The usage of the failed call, if it was reported. */
  readonly usage: Usage | undefined;

  constructor(
    kind: ModelErrorKind,
    message: string,
    options: { readonly cause?: unknown; readonly usage?: Usage } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.kind = kind;
    this.usage = options.usage;
  }
}
