import { AppError } from "@gateway/shared/errors";
import { stringifyJson } from "@gateway/shared/json";
import { shortenText } from "@gateway/shared/text";

/** A JSON-RPC id. A number and a string of the same digits are two ids. */
export type RequestId = string | number;

/** A call that a request has started. */
export interface StartedCall {
  readonly id: RequestId;
  /** Aborted when the client cancels it; then it gets no answer. */
  readonly signal: AbortSignal;
  /** Settles when nothing of it runs any more. */
  readonly ended: Promise<unknown>;
}

/** As much of an id as a message repeats, in characters. */
const MAX_SHOWN_ID = 80;

/** What came in one body, or one line. */
interface Exchange {
  readonly ids: ReadonlySet<RequestId>;
  readonly unanswered: Set<RequestId>;
  readonly calls: ReadonlySet<RequestId>;
}

/**
 * The requests of one connection or session that are under way. The MCP library finds a request's answer, its
 * cancellation and its end by the id alone: with two of one id, one call gets the other's answer, and one can't be
 * cancelled any more. So the second is refused before the library sees it.
 */
export class OpenRequests {
  readonly #open = new Map<RequestId, Exchange>();

  /** How many requests are under way or have an answer that is not sent. */
  get size(): number {
    return this.#open.size;
  }

  /**
   * Takes note of the requests among these messages, and of what they cancel. All of them are to be given to the
   * library next.
   *
   * @returns what is to be called when the library does not take them
   * @throws {AppError} `invalid_request` when one of them has the id of another one that is under way
   */
  begin(messages: readonly unknown[]): () => void {
    const requests = messages.flatMap((message) => readRequest(message) ?? []);
    const ids = new Set<RequestId>();
    for (const { id } of requests) {
      if (ids.has(id) || this.#open.has(id)) throw inUse(id);
      ids.add(id);
    }
    const calls = new Set(requests.filter(({ method }) => method === "tools/call").map(({ id }) => id));
    const exchange = { ids, unanswered: new Set(ids), calls };
    for (const id of ids) this.#open.set(id, exchange);
    for (const message of messages) this.#cancel(readCancelled(message));
    return () => this.#forget(exchange);
  }

  /** Takes note of a message that has been sent. */
  sent(message: object): void {
    if ("method" in message || !("id" in message) || !isId(message.id)) return;
    const exchange = this.#open.get(message.id);
    if (exchange === undefined) return;
    exchange.unanswered.delete(message.id);
    // Of a batch the library keeps every id until it has all answers.
    if (exchange.unanswered.size === 0) this.#forget(exchange);
  }

  /** Takes note of a call: one that is cancelled gets no answer, but is under way until it has ended. */
  watch({ id, signal, ended }: StartedCall): void {
    const exchange = this.#open.get(id);
    if (exchange === undefined) return;
    const forget = () => this.#forgetUnanswered(exchange);
    const onEnd = () => {
      if (signal.aborted) forget();
      else signal.addEventListener("abort", forget, { once: true });
    };
    ended.then(onEnd, onEnd);
  }

  /** What is cancelled and is not a call is over at once. */
  #cancel(id: RequestId | undefined): void {
    const exchange = id === undefined ? undefined : this.#open.get(id);
    if (exchange !== undefined && id !== undefined && !exchange.calls.has(id)) {
      this.#forgetUnanswered(exchange);
    }
  }

  /** A batch of which one gets no answer never has all: the library keeps its ids, and so does this. */
  #forgetUnanswered(exchange: Exchange): void {
    if (exchange.ids.size === 1) this.#forget(exchange);
  }

  #forget(exchange: Exchange): void {
    for (const id of exchange.ids) {
      if (this.#open.get(id) === exchange) this.#open.delete(id);
    }
  }
}

function readRequest(message: unknown): { readonly id: RequestId; readonly method: unknown } | undefined {
  if (typeof message !== "object" || message === null) return undefined;
  if (!("method" in message) || !("id" in message) || !isId(message.id)) return undefined;
  return { id: message.id, method: message.method };
}

function readCancelled(message: unknown): RequestId | undefined {
  if (typeof message !== "object" || message === null) return undefined;
  if (!("method" in message) || message.method !== "notifications/cancelled") return undefined;
  const params = "params" in message ? message.params : undefined;
  if (typeof params !== "object" || params === null || !("requestId" in params)) return undefined;
  return isId(params.requestId) ? params.requestId : undefined;
}

function isId(id: unknown): id is RequestId {
  return typeof id === "string" || typeof id === "number";
}

function inUse(id: RequestId): AppError {
  return new AppError(
    "invalid_request",
    `the id ${
      shortenText(stringifyJson(id), MAX_SHOWN_ID)
    } belongs to a request that has not been answered yet; ` +
      "that one is still under way, this one was not taken",
  );
}
