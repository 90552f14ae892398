/**
 * The events of a run while it lasts, one JSON line each, beside its record.
 *
 * A journal and not a rewrite of the record: a rewrite costs as much as everything before it and would come once
 * a round at best, so that a killed server lost the round that it was in. A line costs one append and is safe from
 * the process's death as soon as it is written; the last one may be torn, and is then left out.
 *
 * @module
 */
import { errorName } from "@gateway/shared/errors";
import { parseStandardJson } from "@gateway/shared/json";
import { readEvents, type StoredEvent } from "./record.ts";

/** Appends bytes to the journal's file. */
export type Append = (bytes: Uint8Array) => Promise<void>;

const ENCODER = new TextEncoder();

/** Writes lines in order; those that come while one write is under way go together with the next. */
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

  /** Takes an event as JSON without line feeds. A failure is told once; the run goes on and keeps its events. */
  add(json: string): void {
    this.#waiting += `${json}\n`;
    this.#writing ??= this.#write();
  }

  /** Waits until everything taken so far is written, or could not be. */
  async settle(): Promise<void> {
    await this.#writing;
  }

  async #write(): Promise<void> {
    // Not in the emitter's turn: what it emits together is written together.
    await Promise.resolve();
    while (this.#waiting !== "") {
      // A write that failed may have left a part of a line.
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

/** The events of a journal; lines that are torn or damaged are left out. */
export function readJournal(text: string): readonly StoredEvent[] {
  return readEvents(
    text.split("\n").map((line) => {
      try {
        return parseStandardJson(line);
      } catch {
        return undefined;
      }
    }),
  );
}
