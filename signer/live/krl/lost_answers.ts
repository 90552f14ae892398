import type { Clock } from "@gateway/shared/clock";
import type { ServiceLogger } from "@gateway/shared/service";
import { REVOCATION_SECONDS } from "./certificates.ts";
import type { RecordedAnswer } from "./recorded.ts";

export interface LostAnswersOptions {
  readonly clock: Clock;
  readonly logger: Pick<ServiceLogger, "error">;
  /** Finds the answers of requests in the audit log since a time in ms. `nameRequest()` names them. */
  readonly findAnswers: (requests: ReadonlySet<string>, since: number) => AsyncIterable<RecordedAnswer>;
  /** Called with the lost answers, before they are revoked. */
  readonly onLost: (answers: readonly RecordedAnswer[]) => Promise<void>;
  readonly isGivenUp: (request: string) => boolean;
  readonly revoke: (serials: readonly bigint[]) => Promise<{ readonly revoked: number }>;
}

/** Abandoned requests whose answers this instance still has to find in the audit log, and to revoke. */
export class LostAnswers {
  readonly #options: LostAnswersOptions;
  #wanted: ReadonlySet<string> = new Set();
  #searching: Promise<number> | undefined;

  constructor(options: LostAnswersOptions) {
    this.#options = options;
  }

  want(requests: Iterable<string>): void {
    this.#wanted = new Set([...this.#wanted, ...requests]);
  }

  /**
   * Searches the audit log for the answers and revokes them. Returns the number of revoked answers. Requests that are
   * added during a search share the next one.
   *
   * @throws the error of the log or of the revocation; the next search includes the requests again
   */
  async search(): Promise<number> {
    if (this.#wanted.size === 0) return 0;
    const before = this.#searching?.catch(() => {}) ?? Promise.resolve();
    return await (this.#searching = before.then(() => this.#searchNow()));
  }

  /** Searches, and logs a failure. */
  async seek(): Promise<void> {
    await this.search().catch((error) =>
      this.#options.logger.error("revoking unanswered requests failed, retrying", { error })
    );
  }

  /** Waits for the search. */
  async close(): Promise<void> {
    await this.#searching?.catch(() => {});
  }

  async #searchNow(): Promise<number> {
    const { clock, findAnswers, onLost, isGivenUp, revoke } = this.#options;
    const wanted = new Set(this.#wanted.values().filter(isGivenUp));
    this.#wanted = new Set();
    if (wanted.size === 0) return 0;
    try {
      const answers = await Array.fromAsync(findAnswers(wanted, clock.now() - REVOCATION_SECONDS * 1000));
      if (answers.length === 0) return 0;
      await onLost(answers);
      return (await revoke(answers.map(({ serial }) => serial))).revoked;
    } catch (error) {
      this.want(wanted);
      throw error;
    }
  }
}
