/**
 * Models that speak a protocol of OpenAI: those of both providers, and any compatible server.
 *
 * @module
 */
import { type Clock, within } from "@gateway/shared/clock";
import type { OpenAI } from "@openai/openai";
import type { ChatApi, ChatStream } from "./chat_api.ts";
import { type CallBounds, type ChatEndpoint, exchangeFor, type SentWith } from "./chat_exchange.ts";
import { BROKEN_OFF, type ChatFailure, describeFailure, NO_COMPLETION } from "./chat_failure.ts";
import { ReplyAssembler } from "./chat_reply.ts";
import { type ChatModel, type Refusable, sendsEffort } from "./chat_request.ts";
import { type Model, ModelError, type ModelReply, type ModelRequest } from "../engine/model.ts";

/** What an {@linkcode OpenAiChat} needs. */
export interface OpenAiChatOptions extends ChatEndpoint {
  readonly id: string;
  readonly name: string;
  readonly baseUrl: string;
  readonly api: ChatApi;
  /** The options that the model has refused before; shared by all callers, who add to it. */
  readonly refused: Set<Refusable>;
  readonly clock: Clock;
  /** A number from 0 to 1, so that waits do not coincide. */
  random(): number;
  warn(message: string): void;
  /** How long a call may take with its retries, in milliseconds. */
  readonly timeoutMs: number;
  /** The longest silence before and inside a stream, in milliseconds; twice as long before an answer in one piece. */
  readonly idleMs: number;
}

/** The number of retries after the first attempt. */
const MAX_RETRIES = 3;

const FIRST_BACKOFF_MS = 500;
const MAX_BACKOFF_MS = 8000;

/** If the provider asks for a longer pause than this, the call is not retried. */
const MAX_RETRY_AFTER_MS = 60_000;

/** How long to wait after the end of a reply for its usage or the end of the stream. */
const TAIL_MS = 5000;

export class OpenAiChat implements Model {
  readonly id: string;
  readonly #what: string;
  readonly #options: OpenAiChatOptions;
  readonly #model: ChatModel;

  constructor(options: OpenAiChatOptions) {
    this.id = options.id;
    this.#what = `Model ${JSON.stringify(options.id)}`;
    this.#options = options;
    this.#model = { name: options.name, refused: options.refused };
  }

  async complete(request: ModelRequest): Promise<ModelReply> {
    const { clock, timeoutMs, idleMs } = this.#options;
    const what = this.#what;
    const silence = new AbortController();
    const onSilence = () => {
      const error = new ModelError("timeout", `${what} fell silent for ${idleMs / 1000} s in mid-reply`);
      silence.abort(error);
      return error;
    };
    const bound = {
      clock,
      ms: timeoutMs,
      signal: AbortSignal.any([request.signal, silence.signal]),
      late: () => new ModelError("timeout", `${what} gave no reply within ${timeoutMs / 1000} s`),
      aborted: (reason: unknown) =>
        silence.signal.aborted ? reason : new ModelError("canceled", `The call of ${what} was canceled`),
    };
    return await within(bound, (signal) => this.#complete(request, { clock, signal, idleMs, onSilence }));
  }

  async #complete(request: ModelRequest, bounds: CallBounds): Promise<ModelReply> {
    const { clock, signal } = bounds;
    let isSpoken = false;
    let renewals = 1;
    let repeats = 1;
    for (let retries = 0;;) {
      const sent: SentWith = {};
      const assembler = new ReplyAssembler();
      try {
        const reply = await this.#attempt(request, {
          bounds,
          sent,
          assembler,
          onText: () => isSpoken = true,
        });
        const isIgnored = request.reasoningEffort !== undefined && !sendsEffort(this.#model);
        return isIgnored ? { ...reply, effortIgnored: true } : reply;
      } catch (error) {
        signal.throwIfAborted();
        const failure = describeFailure(error, clock.now());
        if (failure.refused !== undefined && !this.#model.refused.has(failure.refused)) {
          this.#options.refused.add(failure.refused);
          continue;
        }
        if (failure.kind === "auth" && sent.token !== undefined && this.#options.tokens.refused(sent.token)) {
          if (renewals-- > 0) continue;
        }
        if (sent.isUnanswered && !isSpoken && repeats-- > 0) {
          this.#options.warn(`${this.#what}: ${failure.text}; trying once more`);
          continue;
        }
        const waitMs = this.#waitMs(failure, retries);
        // Text that was shown cannot be withdrawn, and a second reply would not continue the first.
        if (isSpoken || waitMs === undefined) throw this.#errorOf(failure, { sent, assembler, cause: error });
        retries++;
        this.#options.warn(`${this.#what}: ${failure.text}; trying again in ${(waitMs / 1000).toFixed(1)} s`);
        await clock.sleep(waitMs, signal);
      }
    }
  }

  async #attempt(request: ModelRequest, attempt: Attempt): Promise<ModelReply> {
    const { bounds: { signal }, assembler } = attempt;
    const { api } = this.#options;
    const client = await this.#client(attempt);
    const answer = await api.send(client, request, this.#model, signal);
    if ("stream" in answer) {
      await this.#readStream(answer.stream, request, attempt);
    } else {
      assembler.add(api.createReader()(answer.whole));
      if (!assembler.hasMessage) throw new ModelError("bad_reply", NO_COMPLETION);
    }
    return assembler.finish(request.messages.length);
  }

  async #readStream(
    stream: ChatStream,
    request: ModelRequest,
    { bounds: { clock, signal }, assembler, onText }: Attempt,
  ): Promise<void> {
    const over = new AbortController();
    const toChunk = this.#options.api.createReader();
    let isLast = false;
    try {
      for await (const part of stream) {
        signal.throwIfAborted();
        const text = assembler.add(toChunk(part));
        if (text !== "") {
          onText();
          request.onDelta?.(text);
        }
        if (assembler.isFull) return;
        if (isLast || !assembler.isFinished) continue;
        isLast = true;
        clock.sleep(TAIL_MS, over.signal).then(() => stream.controller.abort(), () => {});
      }
    } catch (error) {
      // The reply is complete; only its usage is lost.
      if (!assembler.isFinished || signal.aborted) throw error;
    } finally {
      over.abort();
    }
    if (!assembler.isFinished) throw new ModelError("server", BROKEN_OFF);
  }

  async #client({ bounds, sent }: Attempt): Promise<OpenAI> {
    // Loaded by the first call: it takes 26 MB, which a replay does not need.
    const { OpenAI } = await import("@openai/openai");
    return new OpenAI({
      baseURL: this.#options.baseUrl,
      apiKey: "sent per request",
      adminAPIKey: null,
      organization: null,
      project: null,
      maxRetries: 0,
      // The library's own timeout is not used; our bounds end the call.
      timeout: 2 ** 31 - 1,
      logLevel: "off",
      fetch: exchangeFor(this.#options, bounds, sent),
    });
  }

  /** How long to wait before another try; `undefined` for never. */
  #waitMs({ mayRetry, retryAfterMs }: ChatFailure, retries: number): number | undefined {
    if (!mayRetry || retries >= MAX_RETRIES) return undefined;
    if (retryAfterMs !== undefined) return retryAfterMs <= MAX_RETRY_AFTER_MS ? retryAfterMs : undefined;
    return Math.min(FIRST_BACKOFF_MS * 2 ** retries, MAX_BACKOFF_MS) * (1 - this.#options.random() / 4);
  }

  #errorOf(
    failure: ChatFailure,
    { sent, assembler: { usage }, cause }: Pick<Attempt, "sent" | "assembler"> & { readonly cause: unknown },
  ): ModelError {
    // If there is no token, the failure comes from the source, which has already said what to do.
    const isRefused = failure.kind === "auth" && sent.token !== undefined;
    const remedy = isRefused ? `; ${this.#options.tokens.remedy}` : "";
    const later = failure.retryAfterMs === undefined
      ? ""
      : `; it asks for a pause of ${Math.ceil(failure.retryAfterMs / 1000)} s`;
    const text = `${this.#what} gave no reply: ${failure.text}${remedy}${later}`;
    return new ModelError(failure.kind, text, { cause, ...(usage === undefined ? {} : { usage }) });
  }
}

interface Attempt {
  readonly bounds: CallBounds;
  readonly sent: SentWith;
  readonly assembler: ReplyAssembler;
  onText(): void;
}
