import { type Clock, within } from "@gateway/shared/clock";
import { collectBytes, cutText } from "@gateway/shared/text";
import { createContextRedactor } from "../context/redact_context.ts";
import { fieldsOf, isObject, oneLine, parseJson, textOf } from "../engine/graph/text.ts";
import type { Model, ModelErrorKind, ModelReply, ModelRequest } from "../engine/ports.ts";
import { ModelError } from "../engine/ports.ts";
import { type ChatApi, REFUSABLE, type Refusable, ReplyAssembler, sendsEffort } from "./chat_completions.ts";
import { below, eventsOf, unreachable } from "./exchange.ts";
import { tokenHeaders, type TokenSource } from "./tokens.ts";

export interface OpenAiChatOptions {
  readonly id: string;
  readonly name: string;
  readonly baseUrl: string;
  readonly api: ChatApi;
  /** The version of the API, for a provider that needs it in the query. */
  readonly apiVersion?: string | undefined;
  /** The name of the header for the token. */
  readonly keyHeader: string;
  readonly tokens: TokenSource;
  readonly headers: Readonly<Record<string, string>>;
  readonly fetch: typeof fetch;
  /** The options that the model has rejected before. All callers share this set and add to it. */
  readonly refused: Set<Refusable>;
  readonly clock: Clock;
  random(): number;
  warn(message: string): void;
  readonly timeoutMs: number;
  /** The longest silence of the provider. */
  readonly idleMs: number;
  readonly maxOutputTokens: number;
}

const MAX_RETRIES = 3;
const FIRST_BACKOFF_MS = 500;
const MAX_BACKOFF_MS = 8000;
/** The longest pause that a provider can request. After a longer one, the call is not retried. */
const MAX_RETRY_AFTER_MS = 60_000;
/** After a reply is complete, wait this long until its usage arrives or the stream ends. */
const TAIL_MS = 5000;
/** The longest quote of a provider's error, in characters. */
const MAX_WORDS = 300;
/** The longest answer to one HTTP request. A stream has about 50 times the bytes of its text. */
const MAX_BYTES = 32 * 1024 * 1024;
/** An answer in one piece may start this many times later than a stream, because the model thinks first. */
const WHOLE_FACTOR = 2;

const BROKEN_OFF = "the provider stopped in the middle of the reply";
const NO_COMPLETION = "the provider did not send a chat completion";

interface Attempt {
  readonly signal: AbortSignal;
  readonly onSilence: () => Error;
  readonly assembler: ReplyAssembler;
  onText(): void;
  token?: string;
  isUnanswered?: true;
}

/** A model behind a server that supports one of the protocols. */
export function openAiChat(options: OpenAiChatOptions): Model {
  const { id, api, tokens, refused, clock, warn, timeoutMs: ms, idleMs } = options;
  const what = `Model ${JSON.stringify(id)}`;

  async function persist(
    request: ModelRequest,
    bounds: Pick<Attempt, "signal" | "onSilence">,
  ): Promise<ModelReply> {
    const { signal } = bounds;
    let isSpoken = false;
    let renewals = 1;
    let repeats = 1;
    for (let retries = 0;;) {
      const attempt: Attempt = { ...bounds, assembler: new ReplyAssembler(), onText: () => isSpoken = true };
      try {
        const reply = await tryOnce(request, attempt);
        const isIgnored = request.reasoningEffort !== undefined && !sendsEffort(options);
        return isIgnored ? { ...reply, effortIgnored: true } : reply;
      } catch (error) {
        signal.throwIfAborted();
        const failure = toFailure(error);
        const { token, isUnanswered } = attempt;
        if (failure.refused !== undefined && !refused.has(failure.refused)) {
          refused.add(failure.refused);
          continue;
        }
        if (failure.kind === "auth" && token !== undefined && tokens.refused(token) && renewals-- > 0) {
          continue;
        }
        if (isUnanswered && !isSpoken && repeats-- > 0) {
          warn(`${what}: ${failure.message}; retrying once`);
          continue;
        }
        const waitMs = waitMsOf(failure, retries);
        // Readers have already seen the text, and a second reply would not continue the first.
        if (isSpoken || waitMs === undefined) throw errorOf(failure, attempt);
        retries++;
        warn(`${what}: ${failure.message}; retrying in ${(waitMs / 1000).toFixed(1)} s`);
        await clock.sleep(waitMs, signal);
      }
    }
  }

  async function tryOnce(request: ModelRequest, attempt: Attempt): Promise<ModelReply> {
    const isStream = request.onDelta !== undefined;
    const { assembler } = attempt;
    const over = new AbortController();
    try {
      const response = await send(JSON.stringify(api.body(request, options)), isStream, attempt);
      const chunks = chunksOf(response, attempt, over.signal);
      const isWhole = !isStream || hasType(response, "application/json");
      if (!response.ok || hasType(response, "text/html")) {
        throw failureOf(response, await readText(chunks), clock.now());
      }
      if (!isWhole) await readStream(chunks, request, attempt, over);
      else {
        // Some gateways collect the stream and answer in one piece.
        const text = assembler.add(api.createReader()(parseJson(await readText(chunks))));
        if (!assembler.hasMessage) throw new ModelError("bad_reply", NO_COMPLETION);
        if (text !== "") request.onDelta?.(text);
      }
      return assembler.finish(request.messages.length);
    } finally {
      over.abort();
    }
  }

  async function send(body: string, isStream: boolean, attempt: Attempt): Promise<Response> {
    const { signal } = attempt;
    const token = await tokens.token(signal);
    signal.throwIfAborted();
    attempt.token = token;
    const ms = isStream ? idleMs : WHOLE_FACTOR * idleMs;
    const release = ({ body }: Response) => body?.cancel();
    return await within(
      { clock, signal, ms, late: () => unanswered(attempt, ms), release },
      (signal) =>
        options.fetch(below(options.baseUrl, api.path, { "api-version": options.apiVersion }), {
          method: "POST",
          body,
          headers: {
            ...options.headers,
            accept: isStream ? "text/event-stream" : "application/json",
            "content-type": "application/json",
            ...tokenHeaders(token, options.keyHeader),
          },
          // A redirect would send the token and the prompts to another server.
          redirect: "manual",
          signal,
        }),
    );
  }

  /** The bytes of an answer. Fails if the bytes stop arriving or if there are too many. */
  async function* chunksOf(
    { body }: Response,
    attempt: Attempt,
    over: AbortSignal,
  ): AsyncGenerator<Uint8Array> {
    const reader = body?.getReader();
    if (reader === undefined) return;
    const signal = AbortSignal.any([attempt.signal, over]);
    try {
      for (let length = 0;;) {
        const late = length === 0 ? () => unanswered(attempt, idleMs) : attempt.onSilence;
        const { done, value } = await within({ clock, ms: idleMs, signal, late }, reader.read());
        if (done) return;
        length += value.length;
        if (length > MAX_BYTES) {
          throw new ModelError("bad_reply", `the answer is longer than ${MAX_BYTES} bytes`);
        }
        yield value;
      }
    } finally {
      reader.cancel().catch(() => {});
    }
  }

  async function readStream(
    chunks: AsyncIterable<Uint8Array>,
    { onDelta }: ModelRequest,
    { assembler, signal, onText }: Attempt,
    over: AbortController,
  ): Promise<void> {
    const toChunk = api.createReader();
    let isLast = false;
    try {
      for await (const data of eventsOf(chunks)) {
        signal.throwIfAborted();
        if (data.startsWith("[DONE]")) break;
        const text = assembler.add(toChunk(readEvent(data)));
        if (text !== "") {
          onText();
          onDelta?.(text);
        }
        if (assembler.isFull) return;
        if (isLast || !assembler.isFinished) continue;
        isLast = true;
        clock.sleep(TAIL_MS, over.signal).then(() => over.abort(), () => {});
      }
    } catch (error) {
      // The reply is complete. Only its usage is lost.
      if (!assembler.isFinished || signal.aborted) throw error;
    }
    if (!assembler.isFinished) throw new ModelError("server", BROKEN_OFF);
  }

  /** The time to wait before a retry; `undefined` if the call is not retried. */
  function waitMsOf({ mayRetry, retryAfterMs }: ChatFailure, retries: number): number | undefined {
    if (!mayRetry || retries >= MAX_RETRIES) return undefined;
    if (retryAfterMs !== undefined) return retryAfterMs <= MAX_RETRY_AFTER_MS ? retryAfterMs : undefined;
    return Math.min(FIRST_BACKOFF_MS * 2 ** retries, MAX_BACKOFF_MS) * (1 - options.random() / 4);
  }

  function errorOf(cause: ChatFailure, { token, assembler: { usage } }: Attempt): ModelError {
    const { kind, message, retryAfterMs: pause, pauseMs } = cause;
    const words = wordsOf(cause, token);
    // Without a token, the token source has failed. Its message already names the remedy.
    const remedy = kind === "auth" && token !== undefined && words === "" ? `; ${tokens.remedy}` : "";
    const later = pause === undefined ? "" : `; it requests a pause of ${Math.ceil(pause / 1000)} s`;
    const text = `${what} gave no reply: ${message}${words}${remedy}${later}`;
    return new ModelError(kind, text, { cause, pauseMs, ...(usage === undefined ? {} : { usage }) });
  }

  /** The provider's words as a quote, without the token, other secrets and the address of the provider. */
  function wordsOf({ words }: ChatFailure, token = ""): string {
    const { host } = new URL(options.baseUrl);
    const line = oneLine(cutText(words, 10 * MAX_WORDS).replace(/[\p{Cc}\p{Cf}]/gu, " "));
    const { text } = createContextRedactor([token, host])(line);
    return text === "" ? "" : `: "${cutText(text, MAX_WORDS)}"`;
  }

  return {
    id,
    async complete(request) {
      const silence = new AbortController();
      const onSilence = () => {
        const error = new ModelError(
          "timeout",
          `${what} sent nothing for ${idleMs / 1000} s during its reply`,
        );
        silence.abort(error);
        return error;
      };
      const signal = AbortSignal.any([request.signal, silence.signal]);
      const late = () => new ModelError("timeout", `${what} gave no reply within ${ms / 1000} s`);
      const aborted = (reason: unknown) =>
        silence.signal.aborted ? reason : new ModelError("canceled", `The call of ${what} was canceled`);
      const bounds = { clock, ms, signal, late, aborted };
      return await within(bounds, (signal) => persist(request, { signal, onSilence }));
    },
  };
}

function unanswered(attempt: Attempt, ms: number): ModelError {
  attempt.isUnanswered = true;
  return new ModelError("timeout", `the provider sent nothing within ${ms / 1000} s`);
}

async function readText(chunks: AsyncIterable<Uint8Array>): Promise<string> {
  return new TextDecoder().decode(await collectBytes(chunks, MAX_BYTES));
}

function errorIn(value: unknown) {
  const { error } = fieldsOf(value);
  if (!isObject(error)) return undefined;
  const [code, type, param, message] = [error.code, error.type, error.param, error.message].map(textOf);
  return { code: code || type || "", param: param ?? "", message: message ?? "" };
}

function readEvent(data: string): unknown {
  const event = parseJson(data);
  if (event === undefined) throw fail("bad_reply", NO_COMPLETION, { mayRetry: true });
  const failed = errorIn(event);
  if (failed === undefined) return event;
  throw providerFailure(failed.code);
}

export function providerFailure(code: string): ModelError {
  return new ModelError("server", `the provider failed${labelOf(code)}`);
}

class ChatFailure extends ModelError {
  mayRetry = false;
  words = "";
  retryAfterMs: number | undefined;
  refused: Refusable | undefined;
}

function fail(kind: ModelErrorKind, message: string, more: Partial<ChatFailure> = {}): ChatFailure {
  return Object.assign(new ChatFailure(kind, message), more);
}

function toFailure(error: unknown): ChatFailure {
  if (error instanceof ChatFailure) return error;
  if (!(error instanceof ModelError)) return fail("server", unreachable(error), { mayRetry: true });
  return fail(error.kind, error.message, { mayRetry: error.kind === "server" });
}

function failureOf(response: Response, text: string, now: number): ChatFailure {
  const { status, headers } = response;
  // Gemini sends a list with one error.
  const [body] = [parseJson(text)].flat();
  const error = errorIn(body) ?? { code: "", param: "", message: text };
  const label = labelOf(error.code, `HTTP ${status}`);
  const pause = retryAfterMs(headers, now);
  if (status === 429) {
    if (error.code === "insufficient_quota") return fail("rate", `the quota is used up${label}`);
    const pauseMs = pause === undefined || pause <= MAX_RETRY_AFTER_MS ? pause ?? 0 : undefined;
    return fail("rate", `too many requests${label}`, { retryAfterMs: pause, pauseMs });
  }
  if (status >= 500 || status === 408 || status === 409) {
    return fail("server", `the provider failed${label}`, { mayRetry: true, retryAfterMs: pause });
  }
  if (status >= 300 && status < 400) {
    return fail("bad_reply", `the provider redirects${label}; set the base URL to the new location`);
  }
  if (hasType(response, "text/html")) {
    return fail("bad_reply", `the provider answered with text/html${label}, is the base URL right?`);
  }
  if (status === 401) return fail("auth", `the provider rejects the access token${label}`);
  const words = body === undefined ? text : wordsIn(body);
  if (status === 403) return fail("auth", `the provider denies access${label}`, { words });
  if (status === 404) {
    return fail("bad_reply", `the provider does not know the model, or the base URL is wrong${label}`, {
      words,
    });
  }
  if (status === 413 || error.code === "context_length_exceeded") {
    const tooLong = `the conversation is too long for the model${label}`;
    // Some providers add the limit of the reply to the conversation.
    return fail("bad_reply", tooLong, { words, refused: status === 413 ? undefined : "max_tokens" });
  }
  const refused = status === 400 || status === 422 ? refusedOption(error) : undefined;
  return fail("bad_reply", `the provider rejects the request${label}`, { words, refused });
}

function hasType({ headers }: Response, type: string): boolean {
  return headers.get("content-type")?.split(";")[0]?.trim().toLowerCase() === type;
}

/** The words of an error. Some servers send only a text. */
function wordsIn(body: unknown): string {
  const { error, message, detail } = fieldsOf(body);
  return [fieldsOf(error).message, error, message, detail].map(textOf).find((text) => text !== "") ?? "";
}

/** The status and the code. A code that is no name is not shown, because it may contain anything. */
function labelOf(code: string, ...parts: readonly string[]): string {
  const shown = /^[a-z0-9_.-]{1,64}$/i.test(code) ? [...parts, code] : parts;
  return shown.length === 0 ? "" : ` (${shown.join(", ")})`;
}

const OTHER_NAMES: Readonly<Record<string, Refusable>> = {
  reasoning: "reasoning_effort",
  "reasoning.effort": "reasoning_effort",
  "text.format": "response_format",
  "text.format.schema": "response_format",
  max_completion_tokens: "max_tokens",
  max_output_tokens: "max_tokens",
};

function refusedOption({ param, message }: { readonly param: string; readonly message: string }) {
  const named = OTHER_NAMES[param] ?? param;
  // Anthropic names no parameter: "This model does not support the effort parameter".
  const words = message.replace(/max_(?:completion|output)_tokens/g, "max_tokens")
    .replace(/output_config\.format|output[ _]format/g, "response_format")
    .replace(/\beffort\b/g, "reasoning_effort");
  return REFUSABLE.find((option) => named === option || named.startsWith(`${option}.`)) ??
    REFUSABLE.find((option) => words.includes(option));
}

function retryAfterMs(headers: Headers, now: number): number | undefined {
  const ms = headers.get("retry-after-ms");
  if (ms && /^\d+$/.test(ms)) return Number(ms);
  const after = headers.get("retry-after")?.trim();
  if (!after) return undefined;
  if (/^\d+(?:\.\d+)?$/.test(after)) return Number(after) * 1000;
  const date = Date.parse(after);
  return Number.isNaN(date) ? undefined : Math.max(0, date - now);
}
