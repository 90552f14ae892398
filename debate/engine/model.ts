import type { NodeName } from "./graph/state.ts";

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
  readonly toolCalls?: readonly ToolCall[];
  /** In a message of role `tool`: the id of the call that it answers. */
  readonly toolCallId?: string;
}

export interface ToolSchema {
  readonly name: string;
  readonly description: string;
  readonly parameters: Readonly<Record<string, unknown>>;
}

export type ReasoningEffort = "low" | "medium" | "high";

export interface ModelRequest {
  readonly messages: readonly ChatMessage[];
  readonly tools?: readonly ToolSchema[];
  /**
   * `none`: the tools are described, because the messages refer to them, but may not be called any more. A
   * provider that cannot express this leaves the tools out.
   */
  readonly toolChoice?: "none";
  readonly temperature: number | undefined;
  readonly reasoningEffort?: ReasoningEffort;
  /** JSON schema that the text must match, for providers with structured output; others leave it out. */
  readonly jsonSchema?: Readonly<Record<string, unknown>>;
  readonly signal: AbortSignal;
  /** Receives the text as it arrives, in non-empty pieces; absent if nobody wants it piece by piece. */
  onDelta?(text: string): void;
  readonly purpose: NodeName;
  readonly round: number;
}

export interface Usage {
  readonly input_tokens: number;
  readonly output_tokens: number;
  readonly total_tokens: number;
  /** The provider said nothing, at least of a part: it is counted by its characters. */
  readonly estimated?: true;
}

export interface ModelReply {
  readonly text: string;
  readonly toolCalls: readonly ToolCall[];
  readonly usage: Usage | undefined;
  readonly isCut?: true;
  /** Whether an effort was requested although this model has no such setting. */
  readonly effortIgnored?: boolean;
}

export interface Model {
  readonly id: string;
  complete(request: ModelRequest): Promise<ModelReply>;
}

export type ModelErrorKind =
  | "auth"
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

export const RUN_MODES = ["debate", "sample_then_debate"] as const;

/** `sample_then_debate`: independent diagnoses first, and a debate only about where they differ. */
export type RunMode = (typeof RUN_MODES)[number];
