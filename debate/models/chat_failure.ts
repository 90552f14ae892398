/**
 * What a failed request means: for people, and for whether to try again.
 *
 * @module
 */
import * as z from "@zod/zod";
import { REFUSABLE, type Refusable } from "./chat_request.ts";
import { ModelError, type ModelErrorKind } from "../engine/model.ts";

export interface ChatFailure {
  readonly kind: Exclude<ModelErrorKind, "canceled">;
  /** Continues "Model … gave no reply: ". */
  readonly text: string;
  /** Whether the same request may succeed a little later. */
  readonly mayRetry: boolean;
  /** How long the provider wants us to wait, in milliseconds. */
  readonly retryAfterMs?: number;
  /** The part of the request that the model refuses. */
  readonly refused?: Refusable;
}

/** A stream that ended before its reply did. */
export const BROKEN_OFF = "the provider broke off in mid-reply";

/** An answer that is not a chat completion. */
export const NO_COMPLETION = "the provider sent something that is not a chat completion";

/** The fields of the client library's errors that are used here; each may be anything. */
const apiError = z.looseObject({
  status: z.int().optional().catch(undefined),
  headers: z.instanceof(Headers).optional().catch(undefined),
  code: z.string().catch(""),
  type: z.string().catch(""),
  param: z.string().catch(""),
  message: z.string().catch(""),
});

type ApiError = z.infer<typeof apiError>;

/**
 * Reads an error of the client library.
 *
 * @param now for a wait that is given as a date
 */
export function describeFailure(error: unknown, now: number): ChatFailure {
  const inner = modelErrorIn(error);
  if (inner !== undefined && inner.kind !== "canceled") {
    return { kind: inner.kind, text: inner.message, mayRetry: inner.kind === "server" };
  }
  if (error instanceof SyntaxError) {
    return { kind: "bad_reply", text: NO_COMPLETION, mayRetry: true };
  }
  if (!(error instanceof Error) || !("status" in error)) {
    return { kind: "server", text: BROKEN_OFF, mayRetry: true };
  }
  // The fields may be getters of a class, so they are read one by one.
  const { status, headers, code, type, param, message } = error as Error & Record<keyof ApiError, unknown>;
  return describeAnswer(apiError.parse({ status, headers, code, type, param, message }), now);
}

/** Our own error, wherever the library has put it. */
function modelErrorIn(error: unknown): ModelError | undefined {
  for (let cause = error, depth = 0; cause instanceof Error && depth < 5; cause = cause.cause, depth++) {
    if (cause instanceof ModelError) return cause;
  }
  return undefined;
}

function describeAnswer(error: ApiError, now: number): ChatFailure {
  const { status } = error;
  const label = labelOf(error);
  if (status === undefined) {
    const isAnswer = error.code !== "" || error.type !== "";
    const text = isAnswer
      ? `the provider failed${label}`
      : "the provider cannot be reached, or the connection broke";
    return { kind: "server", text, mayRetry: true };
  }
  const waitMs = retryAfterMs(error.headers, now);
  const retry = { mayRetry: true, ...(waitMs === undefined ? {} : { retryAfterMs: waitMs }) };
  switch (status) {
    case 401:
    case 403:
      return { kind: "auth", text: `the provider refuses the access token${label}`, mayRetry: false };
    case 404:
      return {
        kind: "bad_reply",
        text: `the provider does not know it, or the base URL is wrong${label}`,
        mayRetry: false,
      };
    case 408:
    case 409:
      return { kind: "server", text: `the provider failed${label}`, ...retry };
    case 429:
      if (error.code === "insufficient_quota") {
        return { kind: "rate", text: `the quota is used up${label}`, mayRetry: false };
      }
      return { kind: "rate", text: `too many requests${label}`, ...retry };
  }
  if (status >= 500) return { kind: "server", text: `the provider failed${label}`, ...retry };
  if (status >= 300 && status < 400) {
    const text = `the provider redirects${label}; set the base URL to where that leads`;
    return { kind: "bad_reply", text, mayRetry: false };
  }
  if (status === 413 || error.code === "context_length_exceeded") {
    return { kind: "bad_reply", text: `the conversation is too long for it${label}`, mayRetry: false };
  }
  const refused = refusedOption(error);
  const text = `the provider refuses the request${label}`;
  return { kind: "bad_reply", text, mayRetry: false, ...(refused === undefined ? {} : { refused }) };
}

/** Status and code. The provider's own words may hold anything, and are not shown. */
function labelOf({ status, code }: ApiError): string {
  const parts = [
    ...(status === undefined ? [] : [`HTTP ${status}`]),
    ...(/^[a-z0-9_.-]{1,64}$/i.test(code) ? [code] : []),
  ];
  return parts.length === 0 ? "" : ` (${parts.join(", ")})`;
}

/** Options that have another name in the responses protocol. */
const NAMES_IN_RESPONSES: Readonly<Record<string, Refusable>> = {
  reasoning: "reasoning_effort",
  "reasoning.effort": "reasoning_effort",
  "text.format": "response_format",
  "text.format.schema": "response_format",
};

/** The option that a refusal is about: named as the parameter, or else in the message. */
function refusedOption({ status, param, message }: ApiError): Refusable | undefined {
  if (status !== 400 && status !== 422) return undefined;
  const named = NAMES_IN_RESPONSES[param] ?? param;
  return REFUSABLE.find((option) => named === option || named.startsWith(`${option}.`)) ??
    REFUSABLE.find((option) => message.includes(option));
}

function retryAfterMs(headers: Headers | undefined, now: number): number | undefined {
  const ms = headers?.get("retry-after-ms");
  if (ms && /^\d+$/.test(ms)) return Number(ms);
  const after = headers?.get("retry-after")?.trim();
  if (!after) return undefined;
  if (/^\d+(?:\.\d+)?$/.test(after)) return Number(after) * 1000;
  const date = Date.parse(after);
  return Number.isNaN(date) ? undefined : Math.max(0, date - now);
}
