import { AppError } from "@gateway/shared/errors";
import { stringifyJson } from "@gateway/shared/json";
import { shortenText } from "@gateway/shared/text";
import * as z from "@zod/zod";

/** A JSON-RPC ID. A number and a string of the same digits are two IDs. */
export type RequestId = string | number;

export interface StartedCall {
  readonly id: RequestId;
  /** Aborted when the client cancels the call, which then gets no answer. */
  readonly signal: AbortSignal;
  readonly ended: Promise<unknown>;
}

const MAX_SHOWN_ID = 80;

const ID = z.union([z.string(), z.number()]);
const REQUEST = z.object({ id: ID, method: z.string() });
const CANCELLATION = z.object({
  method: z.literal("notifications/cancelled"),
  params: z.object({ requestId: ID }),
});

interface Exchange {
  readonly ids: ReadonlySet<RequestId>;
  readonly unanswered: Set<RequestId>;
  readonly calls: ReadonlySet<RequestId>;
}

/**
 * The requests of one connection or session that are under way. The MCP library finds the answer, the cancellation and
 * the end of a request by its ID alone: of two requests with one ID, one call would get the other's answer, and one
 * could not be canceled. So a second request is rejected before the library sees it.
 */
export class OpenRequests {
  readonly #open = new Map<RequestId, Exchange>();

  get size(): number {
    return this.#open.size;
  }

  /** Registers the requests before the library gets them. Dispose of the result if the library does not accept them. */
  begin(messages: readonly unknown[]): Disposable {
    const requests = messages.flatMap((message) => REQUEST.safeParse(message).data ?? []);
    const ids = new Set<RequestId>();
    for (const { id } of requests) {
      if (ids.has(id) || this.#open.has(id)) throw inUse(id);
      ids.add(id);
    }
    const calls = new Set(requests.filter(({ method }) => method === "tools/call").map(({ id }) => id));
    const exchange = { ids, unanswered: new Set(ids), calls };
    for (const id of ids) this.#open.set(id, exchange);
    for (const message of messages) {
      const id = CANCELLATION.safeParse(message).data?.params.requestId;
      const canceled = id === undefined ? undefined : this.#open.get(id);
      // A canceled request without a running call ends immediately.
      if (id !== undefined && canceled?.calls.has(id) === false) this.#forgetUnanswered(canceled);
    }
    return { [Symbol.dispose]: () => this.#forget(exchange) };
  }

  sent(message: object): void {
    if ("method" in message || !("id" in message)) return;
    const { data: id } = ID.safeParse(message.id);
    const exchange = id === undefined ? undefined : this.#open.get(id);
    if (id === undefined || exchange === undefined) return;
    exchange.unanswered.delete(id);
    // The library keeps the IDs of a batch until it has all answers.
    if (exchange.unanswered.size === 0) this.#forget(exchange);
  }

  /** Tracks a call until it has ended. A canceled call gets no answer, but its ID stays in use until then. */
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

  /** A batch without one of its answers is never complete, so the library keeps its IDs. */
  #forgetUnanswered(exchange: Exchange): void {
    if (exchange.ids.size === 1) this.#forget(exchange);
  }

  #forget(exchange: Exchange): void {
    for (const id of exchange.ids) {
      if (this.#open.get(id) === exchange) this.#open.delete(id);
    }
  }
}

function inUse(id: RequestId): AppError {
  const shown = shortenText(stringifyJson(id), MAX_SHOWN_ID);
  return new AppError(
    "invalid_request",
    `the id ${shown} belongs to a request that is still running; this request was rejected`,
  );
}
