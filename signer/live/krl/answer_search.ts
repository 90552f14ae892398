import type { Clock } from "@gateway/shared/clock";
import type { RecordedAnswer } from "./recorded.ts";
import { REVOCATION_SECONDS } from "./revocations.ts";

/** What an {@linkcode AnswerSearch} works with. Requests are named as `nameRequest()` does it. */
export interface AnswerSearchOptions {
  readonly clock: Clock;
  /** What the audit log tells of requests, back to a time in milliseconds since the epoch. */
  readonly findAnswers: (requests: ReadonlySet<string>, since: number) => AsyncIterable<RecordedAnswer>;
  /** Whether a request still counts as given up: others need not be looked for. */
  readonly isGivenUp: (request: string) => boolean;
  /** Revokes what was found; gives how much of it was not revoked before. */
  readonly revoke: (answers: readonly RecordedAnswer[]) => Promise<number>;
}

/** Looks in the audit log for what came of requests that were given up. One reads it for all that ask meanwhile. */
export class AnswerSearch {
  readonly #options: AnswerSearchOptions;
  #wanted: ReadonlySet<string> = new Set();
  #running: Promise<number> | undefined;

  constructor(options: AnswerSearchOptions) {
    this.#options = options;
  }

  /** Keeps requests for the next search. */
  keep(requests: readonly string[]): void {
    if (requests.length > 0) this.#wanted = new Set([...this.#wanted, ...requests]);
  }

  /**
   * Looks for what is kept, and revokes it; gives how much that was.
   *
   * @throws what the log or the revocation throws: it is kept for the next search
   */
  async search(): Promise<number> {
    if (this.#wanted.size === 0) return 0;
    const before = this.#running?.catch(() => {}) ?? Promise.resolve();
    return await (this.#running = before.then(() => this.#searchNow()));
  }

  /** Resolves when nothing is looked for any more. Never rejects. */
  async settled(): Promise<void> {
    await this.#running?.catch(() => {});
  }

  async #searchNow(): Promise<number> {
    const { clock, findAnswers, isGivenUp, revoke } = this.#options;
    const wanted = new Set(this.#wanted.values().filter(isGivenUp));
    this.#wanted = new Set();
    if (wanted.size === 0) return 0;
    try {
      const answers = await Array.fromAsync(findAnswers(wanted, clock.now() - REVOCATION_SECONDS * 1000));
      return answers.length === 0 ? 0 : await revoke(answers);
    } catch (error) {
      this.keep([...wanted]);
      throw error;
    }
  }
}
