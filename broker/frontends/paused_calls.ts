import { type Clock, type Random, within } from "@gateway/shared/clock";
import {
  type CallToolResult,
  type InputRequiredResult,
  ProtocolError,
  ProtocolErrorCode,
} from "@modelcontextprotocol/server";
import type { AskHuman, HumanAnswer } from "../request/execute.ts";
import { HUMAN_MS, inputRequiredResult } from "./elicitation.ts";

/** Calls of one client that wait for its human at a time. */
export const MAX_PAUSED = 16;

/** A call of a tool. It does not reject: its failures are results. */
type PausableCall = (context: {
  readonly signal: AbortSignal;
  readonly askHuman: AskHuman;
}) => Promise<CallToolResult>;

/** What makes a repeated call the same call. */
interface CallRequest {
  /** The tool and its arguments, as one text. */
  readonly identity: string;
  readonly signal: AbortSignal;
}

interface PausedCall {
  readonly identity: string;
  readonly stop: AbortController;
  readonly result: Promise<CallToolResult>;
  readonly answer: (answer: HumanAnswer) => void;
}

/**
 * Calls of the stateless protocol generation that have come to a question. A server of that generation may send
 * no request of its own: the question is the result of the call, and the client repeats the call with the
 * answer. In between the call itself stands still here, so that the answer reaches exactly the call that asked,
 * once: the client holds no more than a random name for it.
 */
export class PausedCalls {
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #paused = new Map<string, PausedCall>();

  constructor({ clock, random }: { readonly clock: Clock; readonly random: Random }) {
    this.#clock = clock;
    this.#random = random;
  }

  /** Runs a call to its result, or to its question. A call may ask once. */
  async begin(request: CallRequest, call: PausableCall): Promise<CallToolResult | InputRequiredResult> {
    const stop = new AbortController();
    const asked = Promise.withResolvers<{ question: string; answer: (answer: HumanAnswer) => void }>();
    const result = call({
      signal: stop.signal,
      askHuman: (question) => new Promise((answer) => asked.resolve({ question, answer })),
    });
    using _link = linkAbort(request.signal, stop);
    const next = await Promise.race([
      result.then((done) => ({ kind: "done", done }) as const),
      asked.promise.then((open) => ({ kind: "asked", ...open }) as const),
    ]);
    if (next.kind === "done") return next.done;
    const { answer, question } = next;
    if (request.signal.aborted) answer({ kind: "declined", why: "canceled" });
    else if (this.#paused.size >= MAX_PAUSED) {
      answer({ kind: "declined", why: "too many calls wait for an answer" });
    } else {
      return inputRequiredResult(question, this.#pause({ identity: request.identity, stop, result, answer }));
    }
    return await result;
  }

  /**
   * Goes on with the call that this state names.
   *
   * @throws {ProtocolError} when there is none (any more)
   */
  async resume(state: unknown, request: CallRequest, given: HumanAnswer): Promise<CallToolResult> {
    const paused = typeof state === "string" ? this.#paused.get(state) : undefined;
    if (typeof state !== "string" || paused === undefined) {
      throw new ProtocolError(ProtocolErrorCode.InvalidParams, "Invalid or expired requestState");
    }
    this.#paused.delete(state);
    using _link = linkAbort(request.signal, paused.stop);
    const isSame = request.identity === paused.identity;
    paused.answer(isSame ? given : { kind: "declined", why: "the answer came with another call" });
    return await paused.result;
  }

  /** Declines what waits; resolves when all of it has ended. */
  async close(): Promise<void> {
    const all = [...this.#paused.values()];
    this.#paused.clear();
    for (const { answer } of all) answer({ kind: "declined", why: "the client has gone" });
    await Promise.allSettled(all.map(({ result }) => result));
  }

  #pause(call: PausedCall): string {
    const state = this.#random.bytes(16).toHex();
    this.#paused.set(state, call);
    within({ clock: this.#clock, ms: HUMAN_MS }, call.result)
      .catch(() => call.answer({ kind: "declined", why: "no answer in time" }))
      .finally(() => this.#paused.delete(state));
    return state;
  }
}

/** While a request is under way its cancellation is the call's. */
function linkAbort(signal: AbortSignal, controller: AbortController): Disposable {
  const abort = () => controller.abort(signal.reason);
  if (signal.aborted) abort();
  signal.addEventListener("abort", abort);
  return { [Symbol.dispose]: () => signal.removeEventListener("abort", abort) };
}
