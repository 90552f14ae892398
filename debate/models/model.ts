/**
 * A language model as the debate sees it: messages in, one reply out. Providers, retries, prices and sessions
 * are behind it.
 *
 * @module
 */
import type { NodeName } from "../graph/state.ts";

/** A tool call that a model asks for. */
export interface ToolCall {
  /** The model's own id for it; may be anything, even empty. */
  readonly id: string;
  readonly name: string;
  /** The raw text as the model wrote it; meant to be a JSON object. */
  readonly arguments: string;
}

/** One message of a conversation. */
export interface ChatMessage {
  readonly role: "system" | "user" | "assistant" | "tool";
  readonly content: string;
  /** What an assistant asked for. */
  readonly toolCalls?: readonly ToolCall[];
  /** In a message of role `tool`: the id of the call that it answers. */
  readonly toolCallId?: string;
}

/** A tool as a model gets to know it. */
export interface ToolSchema {
  readonly name: string;
  readonly description: string;
  /** JSON schema of the arguments. */
  readonly parameters: Readonly<Record<string, unknown>>;
}

/** How hard a model is asked to think. */
export type ReasoningEffort = "low" | "medium" | "high";

/** One call of a model. */
export interface ModelRequest {
  readonly messages: readonly ChatMessage[];
  /** Absent: the model gets no tools. */
  readonly tools?: readonly ToolSchema[];
  /**
   * `none`: the tools are described, because the messages speak of them, but may not be called any more. A
   * provider that cannot say so leaves the tools out.
   */
  readonly toolChoice?: "none";
  /** A provider leaves it out for models that refuse one. */
  readonly temperature: number | undefined;
  readonly reasoningEffort?: ReasoningEffort;
  /** JSON schema that the text must obey, for providers with structured output; others leave it out. */
  readonly jsonSchema?: Readonly<Record<string, unknown>>;
  readonly signal: AbortSignal;
  /** Given where the text is wanted as it comes; gets pieces that are not empty. */
  onDelta?(text: string): void;
  /** Who calls. */
  readonly purpose: NodeName;
  /** In which round, from 1. */
  readonly round: number;
}

/** Tokens, as the provider counted them. */
export interface Usage {
  readonly input_tokens: number;
  readonly output_tokens: number;
  readonly total_tokens: number;
}

/** A model's reply. */
export interface ModelReply {
  /** The whole text; empty when there is none. */
  readonly text: string;
  readonly toolCalls: readonly ToolCall[];
  /** `undefined` when the provider did not say. */
  readonly usage: Usage | undefined;
  /** An effort was asked for and this model has no such setting. */
  readonly effortIgnored?: boolean;
}

/** A model that can be called. */
export interface Model {
  /** As configured: `<provider>/<model_name>`. */
  readonly id: string;
  /** @throws {ModelError} and nothing else */
  complete(request: ModelRequest): Promise<ModelReply>;
}

/** Why a model gave no reply. */
export type ModelErrorKind =
  /** No token, or it is refused. */
  | "auth"
  /** Too many requests, also after retries. */
  | "rate"
  | "timeout"
  /** The provider failed or cannot be reached, also after retries; or broke off in the middle. */
  | "server"
  /** The provider refuses the request as such, or its answer cannot be read. */
  | "bad_reply"
  /** The request's signal was aborted. */
  | "canceled";

/** A model's failure. The message is for people and goes into events: no tokens, addresses or raw bodies in it. */
export class ModelError extends Error {
  override readonly name = "ModelError";
  readonly kind: ModelErrorKind;
  /** What the failed call cost nevertheless. */
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
