import { type Clock, type Random, within } from "@gateway/shared/clock";
import {
  type CallToolResult,
  type ElicitRequestFormParams,
  inputRequired,
  type InputRequiredResult,
  ProtocolError,
  ProtocolErrorCode,
  type ServerContext,
} from "@modelcontextprotocol/server";
import * as z from "@zod/zod";
import type { AskHuman, HumanAnswer } from "../request/execute.ts";

export const HUMAN_MS = 600_000;
/** The maximum number of one client's calls that wait for its human at the same time. */
export const MAX_PAUSED = 16;
const INPUT = "approval";

const APPROVED = z.object({ action: z.literal("accept"), content: z.object({ approve: z.literal(true) }) });
const ANSWERED = z.object({ action: z.enum(["accept", "decline", "cancel"]) });
const CAN_ELICIT = z.object({
  elicitation: z.object({ form: z.unknown().optional(), url: z.unknown().optional() }),
});

/** Whether a client can show a form to a human. A bare `elicitation` means forms. */
export function canElicit(capabilities: unknown): boolean {
  const declared = CAN_ELICIT.safeParse(capabilities);
  if (!declared.success) return false;
  const { form, url } = declared.data.elicitation;
  return form !== undefined || url === undefined;
}

function elicitationParams(question: string): ElicitRequestFormParams {
  return {
    mode: "form",
    message: question,
    requestedSchema: {
      type: "object",
      properties: { approve: { type: "boolean", description: "Run exactly this command, once" } },
      required: ["approve"],
    },
  };
}

/** Only `accept` with `approve: true` approves. */
export function readElicitation(result: unknown): HumanAnswer {
  if (APPROVED.safeParse(result).success) return { kind: "approved" };
  const action = ANSWERED.safeParse(result).data?.action ?? "no answer that can be read";
  return { kind: "declined", why: `declined: ${action === "accept" ? "approve is not true" : action}` };
}

export function readInput(responses: Readonly<Record<string, unknown>> | undefined): HumanAnswer {
  return readElicitation(responses && Object.hasOwn(responses, INPUT) ? responses[INPUT] : undefined);
}

/** Asks by a request from the server, which only the protocol generation with sessions allows. */
export function askByRequest({ send, signal }: ServerContext["mcpReq"], clock: Clock): AskHuman {
  return async (question) => {
    const params = { ...elicitationParams(question) };
    const tooLate = new Error("no answer in time");
    try {
      // The library's own timer must not end the wait first.
      const answer = await within(
        { clock, ms: HUMAN_MS, signal, late: () => tooLate },
        (signal) => send({ method: "elicitation/create", params }, { signal, timeout: 2 * HUMAN_MS }),
      );
      return readElicitation(answer);
    } catch (error) {
      if (error === tooLate) return { kind: "declined", why: tooLate.message };
      return signal.aborted ? { kind: "declined", why: "canceled" } : readElicitation(undefined);
    }
  };
}

interface CallRequest {
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
 * Calls of the stateless protocol generation that wait for a human. A server of that generation sends no requests: the
 * question is the result of the call, and the client repeats the call with the answer. The call waits here, and the
 * client has only a random name for it, so that an answer reaches exactly the call that asked, once.
 */
export class PausedCalls {
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #paused = new Map<string, PausedCall>();

  constructor({ clock, random }: { readonly clock: Clock; readonly random: Random }) {
    this.#clock = clock;
    this.#random = random;
  }

  /** Runs a call until it returns a result or asks its question. A call never rejects, and may ask once. */
  async begin(
    { identity, signal }: CallRequest,
    call: (context: { signal: AbortSignal; askHuman: AskHuman }) => Promise<CallToolResult>,
  ): Promise<CallToolResult | InputRequiredResult> {
    const stop = new AbortController();
    const asked = Promise.withResolvers<{ question: string; answer: PausedCall["answer"] }>();
    const result = call({
      signal: stop.signal,
      askHuman: (question) => new Promise((answer) => asked.resolve({ question, answer })),
    });
    using _link = linkAbort(signal, stop);
    const next = await Promise.race([result.then((done) => ({ done })), asked.promise]);
    if ("done" in next) return next.done;
    const { question, answer } = next;
    if (!signal.aborted && this.#paused.size < MAX_PAUSED) {
      const requestState = this.#pause({ identity, stop, result, answer });
      const inputRequests = { [INPUT]: inputRequired.elicit(elicitationParams(question)) };
      return inputRequired({ inputRequests, requestState });
    }
    answer({ kind: "declined", why: signal.aborted ? "canceled" : "too many calls wait for an answer" });
    return await result;
  }

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

  /** Declines all waiting calls. Resolves when they have ended. */
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

function linkAbort(signal: AbortSignal, controller: AbortController): Disposable {
  const abort = () => controller.abort(signal.reason);
  if (signal.aborted) abort();
  signal.addEventListener("abort", abort);
  return { [Symbol.dispose]: () => signal.removeEventListener("abort", abort) };
}
