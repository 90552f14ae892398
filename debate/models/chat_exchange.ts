/**
 * The only way in which the client library reaches a provider. It decides what leaves this process: the library's
 * own headers, which describe this machine and carry another program's name, are removed.
 *
 * @module
 */
import { type Clock, within } from "@gateway/shared/clock";
import { ModelError } from "../engine/model.ts";
import { plainBody } from "./plain_body.ts";

/** The access of one provider, per HTTP request. */
export interface TokenSource {
  /**
   * The token to send.
   *
   * @throws {ModelError} when there is none; its message continues "Model … gave no reply: "
   */
  token(signal: AbortSignal): Promise<string>;
  /** Called when the provider has refused a token. Returns whether there may be a better one now. */
  refused(token: string): boolean;
  /** What an operator can do about a refused token, as the end of a sentence. */
  readonly remedy: string;
}

/** What a request needs to know about a provider. */
export interface ChatEndpoint {
  readonly tokens: TokenSource;
  /** Headers in addition to the usual ones. */
  readonly headers: Readonly<Record<string, string>>;
  readonly fetch: typeof fetch;
}

/** The longest answer to one HTTP request. A stream has about 50 times the bytes of its text. */
const MAX_BYTES = 32 * 1024 * 1024;

/** How many times longer than a stream an answer in one piece may be silent before it begins. */
const WHOLE_FACTOR = 2;

/** What bounds a call with all of its requests. */
export interface CallBounds {
  readonly clock: Clock;
  /** Aborted when the call is over, for whatever reason. */
  readonly signal: AbortSignal;
  /** The longest silence inside an answer, in milliseconds. */
  readonly idleMs: number;
  /** Ends the call, and returns the error that says so. */
  readonly onSilence: () => Error;
}

/** What a request was sent with. */
export interface SentWith {
  token?: string;
  /** The provider took the request and sent nothing at all. */
  isUnanswered?: true;
}

export function exchangeFor(endpoint: ChatEndpoint, bounds: CallBounds, sent: SentWith): typeof fetch {
  const { tokens } = endpoint;
  return async (input, init = {}) => {
    const token = await tokens.token(bounds.signal);
    bounds.signal.throwIfAborted();
    sent.token = token;
    const isStream = typeof init.body === "string" && /"stream":true/.test(init.body);
    const headers = {
      ...endpoint.headers,
      accept: isStream ? "text/event-stream" : "application/json",
      "content-type": "application/json",
      authorization: `Bearer ${token}`,
    };
    // What is not a stream is sent once it is whole, and a model that thinks for long may need a while for it.
    const silentMs = isStream ? bounds.idleMs : WHOLE_FACTOR * bounds.idleMs;
    const lateAfter = (ms: number) => () => {
      sent.isUnanswered = true;
      return new ModelError("timeout", `the provider sent nothing within ${ms / 1000} s`);
    };
    const send = (signal: AbortSignal) =>
      // A redirect would carry token and prompts to wherever it points.
      endpoint.fetch(input, { ...init, headers, redirect: "manual", signal });
    const response = await within({
      clock: bounds.clock,
      signal: init.signal ?? bounds.signal,
      ms: silentMs,
      late: lateAfter(silentMs),
      release: ({ body }) => body?.cancel(),
    }, send);
    if (isStream && response.ok && /^(?:application\/json|text\/html)\b/i.test(contentType(response))) {
      await response.body?.cancel();
      throw new ModelError("bad_reply", "the provider does not stream");
    }
    if (response.body === null) return response;
    const { status, headers: answered } = response;
    const body = watch(response.body, bounds, lateAfter(bounds.idleMs)).pipeThrough(
      plainBody(isStream && response.ok),
    );
    return new Response(body, { status, headers: answered });
  };
}

/** Passes a body through, ends the call if the body falls silent in the middle, and aborts it if it is too long. */
function watch(
  body: ReadableStream<Uint8Array<ArrayBuffer>>,
  { clock, idleMs, onSilence }: CallBounds,
  unanswered: () => Error,
): ReadableStream<Uint8Array<ArrayBuffer>> {
  const reader = body.getReader();
  let length = 0;
  return new ReadableStream({
    async pull(controller) {
      try {
        const { done, value } = await within(
          { clock, ms: idleMs, late: length === 0 ? unanswered : onSilence },
          reader.read(),
        );
        if (done) return controller.close();
        length += value.length;
        if (length > MAX_BYTES) {
          throw new ModelError("bad_reply", `the answer is longer than ${MAX_BYTES} bytes`);
        }
        controller.enqueue(value);
      } catch (error) {
        reader.cancel(error).catch(() => {});
        throw error;
      }
    },
    cancel: (reason) => reader.cancel(reason),
  }, { highWaterMark: 0 });
}

function contentType(response: Response): string {
  return response.headers.get("content-type") ?? "";
}
