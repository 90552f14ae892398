/** Each event is encoded once. All subscribers read the same memory at their own pace. */
import type { Clock } from "@gateway/shared/clock";
import { EPHEMERAL } from "../engine/events.ts";

const FIRST_PAGE_BYTES = 4096;
const PAGE_BYTES = 65_536;
/** Subscribers are notified at most this often; events in between are sent in one piece. */
const PACE_MS = 25;

const ENCODER = new TextEncoder();
const EPHEMERAL_TYPES: ReadonlySet<string> = EPHEMERAL;

interface Page {
  readonly start: number;
  readonly bytes: Uint8Array;
  used: number;
}

/**
 * Events as frames of `text/event-stream`. The id of an event is the number of stored events including it; that
 * of an ephemeral one is the id before it and its number after that, such as `7.2`. So ids mean the same in the
 * record of the run, where the ephemeral ones are missing.
 */
export class EventLog {
  readonly #clock: Clock;
  readonly #pages: Page[] = [];
  readonly #listeners = new Set<() => void>();
  readonly #ends: number[] = [];
  /** The index in `#ends` of each stored event, from 1 on. */
  readonly #stored: number[] = [-1];
  #ephemeral = 0;
  #size = 0;
  #isEnded = false;
  #toldAt = -Infinity;
  #isTelling = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get size(): number {
    return this.#size;
  }

  get isEnded(): boolean {
    return this.#isEnded;
  }

  /** @param json the whole event in one line */
  append({ type, json }: Readonly<Record<"type" | "json", string>>): void {
    if (this.#isEnded) return;
    const isEphemeral = EPHEMERAL_TYPES.has(type);
    this.#ephemeral = isEphemeral ? this.#ephemeral + 1 : 0;
    if (!isEphemeral) this.#stored.push(this.#ends.length);
    const stored = this.#stored.length - 1;
    const id = isEphemeral ? `${stored}.${this.#ephemeral}` : `${stored}`;
    this.#write(ENCODER.encode(`id: ${id}\nevent: message\ndata: ${json}\n\n`));
    this.#ends.push(this.#size);
    this.#tellSoon();
  }

  end(): void {
    this.#isEnded = true;
    this.#tell();
  }

  listen(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /**
   * The position after the event with an id. If the id is not known here, nothing is left out:
   * the position is the beginning.
   */
  placeAfter(id: string | null): number {
    const match = /^(\d{1,9})(?:\.(\d{1,9}))?$/.exec(id ?? "");
    const entry = this.#stored[Number(match?.[1])];
    if (entry === undefined) return 0;
    const number = Number(match?.[2] ?? 0);
    const next = this.#stored[Number(match?.[1]) + 1] ?? this.#ends.length;
    // The record has no ephemeral events, so what follows this one follows the stored event before it.
    return this.#ends[Math.min(entry + number, next - 1)] ?? 0;
  }

  /** The bytes from a position on, as far as they are contiguous; empty at the end. */
  read(place: number): Uint8Array | undefined {
    if (place >= this.#size) return undefined;
    const page = this.#pages.findLast(({ start }) => start <= place);
    return page?.bytes.subarray(place - page.start, page.used);
  }

  #write(frame: Uint8Array): void {
    let page = this.#pages.at(-1);
    if (page === undefined || page.bytes.length - page.used < frame.length) {
      const usual = page === undefined ? FIRST_PAGE_BYTES : PAGE_BYTES;
      page = { start: this.#size, bytes: new Uint8Array(Math.max(usual, frame.length)), used: 0 };
      this.#pages.push(page);
    }
    page.bytes.set(frame, page.used);
    page.used += frame.length;
    this.#size += frame.length;
  }

  #tellSoon(): void {
    if (this.#isTelling || this.#listeners.size === 0) return;
    this.#isTelling = true;
    const wait = Math.min(PACE_MS, Math.max(0, this.#toldAt + PACE_MS - this.#clock.now()));
    // Even if there is no need to wait, so that events emitted in one turn are sent together.
    const pause = wait === 0 ? Promise.resolve() : this.#clock.sleep(wait);
    pause.then(() => this.#tell());
  }

  #tell(): void {
    this.#isTelling = false;
    this.#toldAt = this.#clock.now();
    for (const listener of this.#listeners) listener();
  }
}
