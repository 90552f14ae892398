/** The events of a run for its subscribers. Each event is encoded once, and all subscribers read the same memory. */
import type { Clock } from "@gateway/shared/clock";
import { UNRECORDED_EVENTS } from "../engine/events.ts";

const FIRST_PAGE_BYTES = 4096;
const PAGE_BYTES = 65_536;
/** The minimum time between two notifications. Events in between are sent in one piece. */
const PACE_MS = 25;

const ENCODER = new TextEncoder();
const EPHEMERAL_TYPES: ReadonlySet<string> = UNRECORDED_EVENTS;

interface Page {
  readonly start: number;
  readonly bytes: Uint8Array;
  used: number;
}

/**
 * Events as frames of `text/event-stream`. The ID of a stored event is its number, from 1. The ID of an ephemeral event
 * is the number of the last stored event and a counter, such as `7.2`. So IDs stay valid for the record of the run,
 * which has no ephemeral events.
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
  #notifiedAt = -Infinity;
  #isNotifying = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get size(): number {
    return this.#size;
  }

  get isEnded(): boolean {
    return this.#isEnded;
  }

  /** @param json the event on one line */
  append({ type, json }: Readonly<Record<"type" | "json", string>>): void {
    if (this.#isEnded) return;
    const isEphemeral = EPHEMERAL_TYPES.has(type);
    this.#ephemeral = isEphemeral ? this.#ephemeral + 1 : 0;
    if (!isEphemeral) this.#stored.push(this.#ends.length);
    const stored = this.#stored.length - 1;
    const id = isEphemeral ? `${stored}.${this.#ephemeral}` : `${stored}`;
    this.#write(ENCODER.encode(`id: ${id}\nevent: message\ndata: ${json}\n\n`));
    this.#ends.push(this.#size);
    this.#notifySoon();
  }

  end(): void {
    this.#isEnded = true;
    this.#notify();
  }

  listen(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /**
   * The position after the event with an ID. An unknown ID returns the beginning, so that no event is missed.
   */
  placeAfter(id: string | null): number {
    const match = /^(\d{1,9})(?:\.(\d{1,9}))?$/.exec(id ?? "");
    const entry = this.#stored[Number(match?.[1])];
    if (entry === undefined) return 0;
    const number = Number(match?.[2] ?? 0);
    const next = this.#stored[Number(match?.[1]) + 1] ?? this.#ends.length;
    // An ephemeral ID from the record is unknown here, so continue after the last stored event before it.
    return this.#ends[Math.min(entry + number, next - 1)] ?? 0;
  }

  /** The contiguous bytes from a position on; `undefined` at the end. */
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

  #notifySoon(): void {
    if (this.#isNotifying || this.#listeners.size === 0) return;
    this.#isNotifying = true;
    const wait = Math.min(PACE_MS, Math.max(0, this.#notifiedAt + PACE_MS - this.#clock.now()));
    // Always asynchronous, so that events emitted in one turn are sent together.
    const pause = wait === 0 ? Promise.resolve() : this.#clock.sleep(wait);
    pause.then(() => this.#notify());
  }

  #notify(): void {
    this.#isNotifying = false;
    this.#notifiedAt = this.#clock.now();
    for (const listener of this.#listeners) listener();
  }
}
