/**
 * Events of a run in progress, one JSON line each. Rewriting the record for each event would cost too much.
 * The last line may be torn and is then ignored.
 */
import { errorName } from "@gateway/shared/errors";
import { parseJson } from "../engine/graph/json_objects.ts";
import { readEvents, type StoredEvent } from "./record.ts";

export type Append = (bytes: Uint8Array) => Promise<void>;

const ENCODER = new TextEncoder();

/** Writes lines in order; lines that arrive during a write are combined into the next one. */
export class Journal {
  readonly #append: Append;
  readonly #warn: (message: string) => void;
  #waiting = "";
  #writing: Promise<void> | undefined;
  #isBroken = false;

  constructor(append: Append, warn: (message: string) => void) {
    this.#append = append;
    this.#warn = warn;
  }

  /**
   * Adds an event as JSON without line feeds. A failure is reported once; the run continues and keeps its
   * events.
   */
  add(json: string): void {
    this.#waiting += `${json}\n`;
    this.#writing ??= this.#write();
  }

  /** Waits until everything added so far has been written, or has failed. */
  async settle(): Promise<void> {
    await this.#writing;
  }

  async #write(): Promise<void> {
    // Not in the emitter's turn, so that events emitted together are written together.
    await Promise.resolve();
    while (this.#waiting !== "") {
      // A failed write may have left a partial line.
      const text = this.#isBroken ? `\n${this.#waiting}` : this.#waiting;
      this.#waiting = "";
      try {
        await this.#append(ENCODER.encode(text));
        this.#isBroken = false;
      } catch (error) {
        if (!this.#isBroken) this.#warn(`cannot write the journal of a run: ${errorName(error)}`);
        this.#isBroken = true;
      }
    }
    this.#writing = undefined;
  }
}

/** The events of a journal; torn or damaged lines are ignored. */
export function readJournal(text: string): readonly StoredEvent[] {
  return readEvents(text.split("\n").map(parseJson));
}
