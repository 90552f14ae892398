/**
 * A budget of tokens for one trial, whichever models it uses.
 *
 * @module
 */
import { type Model, ModelError, type ModelReply, type ModelRequest } from "../engine/model.ts";

/** What is left; the call that crosses the limit is the last one. */
export class TokenBudget {
  readonly #limit: number;
  #spent = 0;

  constructor(limit: number) {
    this.#limit = limit;
  }

  get isOver(): boolean {
    return this.#spent >= this.#limit;
  }

  get spent(): number {
    return this.#spent;
  }

  /** A model that spends from this budget. */
  bound(model: Model): Model {
    return {
      id: model.id,
      complete: async (request) => {
        if (this.isOver) throw new ModelError("canceled", "The budget of tokens is used up");
        try {
          const reply = await model.complete(request);
          this.#spent += tokensOf(request, reply);
          return reply;
        } catch (error) {
          if (error instanceof ModelError) this.#spent += error.usage?.total_tokens ?? 0;
          throw error;
        }
      },
    };
  }
}

const CHARACTERS_PER_TOKEN = 4;

/** A provider that says nothing is not free. */
function tokensOf({ messages }: ModelRequest, { usage, text, toolCalls }: ModelReply): number {
  if (usage !== undefined && usage.total_tokens > 0) return usage.total_tokens;
  const written = text.length + toolCalls.reduce((sum, call) => sum + call.arguments.length, 0);
  const read = messages.reduce((sum, { content }) => sum + content.length, 0);
  return Math.ceil((read + written) / CHARACTERS_PER_TOKEN);
}
