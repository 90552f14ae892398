import { AppError } from "@gateway/shared/errors";

/** How much of the answers of one end user is held at a time until their clients take them, in characters. */
export const MAX_HELD_LENGTH = 48 << 20;

/** An answer that is no longer than this never waits: a client that has gone to sleep must not stop the others. */
export const SHORT_LENGTH = 64 << 10;

interface Waiting {
  readonly length: number;
  readonly admit: () => void;
}

interface Held {
  length: number;
  readonly waiting: Set<Waiting>;
}

/**
 * Bounds how much of a user's answers is on its way: an answer that is given to the transport is held in several
 * forms, for as long as the client takes none of it. The others wait, in the order of their coming.
 */
export class AnswerRoom {
  readonly #maxLength: number;
  readonly #held = new Map<string, Held>();

  constructor(maxLength: number = MAX_HELD_LENGTH) {
    this.#maxLength = maxLength;
  }

  /**
   * Waits until there is room for an answer. One that is longer than all room gets it alone.
   *
   * @returns what is to be called when the client has the answer, or does not want it any more; calling it again
   * does nothing
   * @throws {AppError} `canceled` when the signal is aborted first
   */
  async take(user: string, length: number, signal: AbortSignal): Promise<() => void> {
    if (signal.aborted) throw canceled(signal.reason);
    const held = this.#held.get(user) ?? { length: 0, waiting: new Set() };
    this.#held.set(user, held);
    if (this.hasRoom(user, length)) held.length += length;
    else await wait(held.waiting, length, signal).finally(() => this.#settle(user, held));
    let ended = false;
    return () => {
      if (ended) return;
      ended = true;
      held.length -= length;
      this.#settle(user, held);
    };
  }

  /** Whether an answer would not have to wait. */
  hasRoom(user: string, length: number): boolean {
    const held = this.#held.get(user);
    return held === undefined || (held.waiting.size === 0 && this.#fits(held, length));
  }

  #fits(held: Held, length: number): boolean {
    return held.length === 0 || held.length + length <= this.#maxLength;
  }

  /** Lets those in for whom there is room now. */
  #settle(user: string, held: Held): void {
    for (const waiting of held.waiting) {
      if (!this.#fits(held, waiting.length)) break;
      held.waiting.delete(waiting);
      held.length += waiting.length;
      waiting.admit();
    }
    const isEmpty = held.length === 0 && held.waiting.size === 0;
    if (isEmpty && this.#held.get(user) === held) this.#held.delete(user);
  }
}

function wait(line: Set<Waiting>, length: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const onAbort = () => {
      line.delete(waiting);
      reject(canceled(signal.reason));
    };
    const waiting: Waiting = {
      length,
      admit() {
        signal.removeEventListener("abort", onAbort);
        resolve();
      },
    };
    line.add(waiting);
    signal.addEventListener("abort", onAbort, { once: true });
  });
}

/** The answers to the calls of one request. */
export class RequestAnswers {
  readonly #room: AnswerRoom;
  readonly #user: string;
  readonly #releases = new Set<() => void>();
  /** How many wait, or have room. */
  #asked = 0;
  #ended = false;

  constructor(room: AnswerRoom, user: string) {
    this.#room = room;
    this.#user = user;
  }

  /**
   * Waits until there is room for one more answer, if it is a long one.
   *
   * @throws {AppError} `canceled`; `rate_limited` when there is none, and another answer of this very request has room
   * or waits for it: that one only leaves when the request has them all
   */
  async hold(length: number, signal: AbortSignal): Promise<void> {
    if (length <= SHORT_LENGTH) return;
    if (this.#asked > 0 && !this.#room.hasRoom(this.#user, length)) throw tooLong();
    this.#asked += 1;
    try {
      const release = await this.#room.take(this.#user, length, signal);
      if (this.#ended) release();
      else this.#releases.add(release);
    } catch (error) {
      this.#asked -= 1;
      throw error;
    }
  }

  /** Gives the room back: the client has the answers, or does not want them any more. */
  end(): void {
    this.#ended = true;
    for (const release of this.#releases) release();
    this.#releases.clear();
  }
}

function canceled(cause: unknown): AppError {
  return new AppError("canceled", "the call was canceled when its answer was ready", { cause });
}

function tooLong(): AppError {
  return new AppError(
    "rate_limited",
    "the call has ended, but the answers to this batch are too long together: what it did is in the audit log; " +
      "send calls one by one",
  );
}
