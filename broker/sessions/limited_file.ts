import { type Clock, within } from "@gateway/shared/clock";
import type { RecordingFile } from "./recording_file.ts";

/** How long a disk may take to do one thing, in milliseconds. One that takes longer may never answer. */
export const DISK_MS = 10_000;

/** The error of a disk that took too long. */
export function tookTooLong(): Error {
  return new DOMException(`The disk did not answer within ${DISK_MS} ms`, "TimeoutError");
}

/**
 * A file that is given up as soon as it takes too long: all that is asked of it from then on rejects at once. It is
 * released when its disk answers after all.
 */
export class LimitedFile implements RecordingFile {
  readonly #file: RecordingFile;
  readonly #clock: Clock;
  #givenUp: Error | undefined;

  constructor(file: RecordingFile, clock: Clock) {
    this.#file = file;
    this.#clock = clock;
  }

  write(bytes: Uint8Array): Promise<void> {
    return this.#limit(() => this.#file.write(bytes));
  }

  truncate(size: number): Promise<void> {
    return this.#limit(() => this.#file.truncate(size));
  }

  /** Has no limit of its own: who closes a recording has one for all that is left to do. */
  async close(): Promise<void> {
    if (this.#givenUp !== undefined) throw this.#givenUp;
    await this.#file.close();
  }

  async #limit(step: () => Promise<void>): Promise<void> {
    if (this.#givenUp !== undefined) throw this.#givenUp;
    const running = step();
    const late = () => {
      const release = () => this.#file.close();
      running.then(release, release).catch(() => {});
      this.#givenUp = tookTooLong();
      return this.#givenUp;
    };
    await within({ clock: this.#clock, ms: DISK_MS, late }, running);
  }
}
