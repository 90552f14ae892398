import { AppError } from "@gateway/shared/errors";
import type { Tool } from "../tools/tool.ts";

/** Calls of one end user at a time; those that nobody waits for any more count as well. */
export const MAX_CALLS = 32;

/** Requests of one end user at a time that are not fully answered, streams included. */
export const MAX_EXCHANGES = 128;

/** Streams of one end user at a time that were taken up again; each holds what it has to repeat. */
export const MAX_RESUMED = 16;

/** Counts what is in progress for each user, so that no user can take everything. */
export class UserLimit {
  readonly #max: number;
  readonly #what: string;
  readonly #running = new Map<string, number>();

  /** @param what the name of what is counted, for the refusal */
  constructor(max: number, what: string) {
    this.#max = max;
    this.#what = what;
  }

  /**
   * Counts one more.
   *
   * @returns what is to be called when it has ended; calling it again does nothing
   * @throws {AppError} `rate_limited` when the user has as many as one may have
   */
  begin(user: string): () => void {
    const count = this.#running.get(user) ?? 0;
    if (count >= this.#max) {
      throw new AppError(
        "rate_limited",
        `too many ${this.#what} at once (${this.#max}); wait for one to end`,
      );
    }
    this.#running.set(user, count + 1);
    let ended = false;
    return () => {
      if (ended) return;
      ended = true;
      const left = (this.#running.get(user) ?? 1) - 1;
      if (left === 0) this.#running.delete(user);
      else this.#running.set(user, left);
    };
  }
}

/**
 * The same tools, of whose calls every caller may have only so many at a time. One whose answer waits for room
 * counts as well.
 */
export function limitCalls(tools: readonly Tool[], max: number = MAX_CALLS): readonly Tool[] {
  const limit = new UserLimit(max, "calls");
  return tools.map((tool) => ({
    ...tool,
    async call(args, context) {
      const end = limit.begin(context.caller);
      try {
        const result = await tool.call(args, context);
        await context.holdAnswer?.(textLength(result), context.signal);
        return result;
      } finally {
        end();
      }
    },
  }));
}

/** What a value costs beside its characters: a member, an element. */
const OVERHEAD = 16;

/**
 * How many characters a JSON value has, roughly: those of its strings and names, and some for all else. As JSON
 * text it has more where characters have to be escaped, at most six times as many. Writing it to find out
 * would cost more memory than what is counted.
 */
export function textLength(value: unknown): number {
  if (typeof value === "string") return value.length + OVERHEAD;
  if (typeof value !== "object" || value === null) return OVERHEAD;
  let length = OVERHEAD;
  for (const [name, member] of Object.entries(value)) length += name.length + textLength(member);
  return length;
}
