/**
 * The events of one run as the bytes that go to its subscribers: each is written once, and all subscribers read the
 * same memory at their own pace. Nothing is ever buffered for one of them.
 *
 * @module
 */
import type { Clock } from "@gateway/shared/clock";
import { EPHEMERAL } from "../events.ts";

const FIRST_PAGE_BYTES = 4096;
const PAGE_BYTES = 65_536;
/** Subscribers are told at most this often: what comes in between goes out in one piece. */
const PACE_MS = 25;

const ENCODER = new TextEncoder();
const EPHEMERAL_TYPES: ReadonlySet<string> = EPHEMERAL;

interface Page {
  /** The place of its first byte in the whole. */
  readonly start: number;
  readonly bytes: Uint8Array;
  used: number;
}

/** An event of {@linkcode EventLog.append}: its type, and all of it as one line of JSON. */
export interface LogEntry {
  readonly type: string;
  readonly json: string;
}

/**
 * Events as frames of `text/event-stream`. The id of an event is how many events are stored with it; of an
 * ephemeral one, that of the event before and its number after it, such as `7.2`. So ids mean the same in the record
 * of the run, where the ephemeral ones are missing.
 */
export class EventLog {
  readonly #clock: Clock;
  readonly #pages: Page[] = [];
  readonly #listeners = new Set<() => void>();
  /** Where each event ends. */
  readonly #ends: number[] = [];
  /** The place in `#ends` of each stored event, from 1 on. */
  readonly #stored: number[] = [-1];
  #ephemeral = 0;
  #size = 0;
  #isEnded = false;
  #toldAt = -Infinity;
  #isTelling = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Bytes so far. */
  get size(): number {
    return this.#size;
  }

  /** Whether nothing will follow. */
  get isEnded(): boolean {
    return this.#isEnded;
  }

  /** Adds an event. */
  append({ type, json }: LogEntry): void {
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

  /** Nothing will follow. Subscribers are told at once. */
  end(): void {
    this.#isEnded = true;
    this.#tell();
  }

  /** Calls back when there is more, or the end; until the result is called. */
  listen(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /**
   * Where to go on after the event of an id. An id that is not known here is no reason to leave out anything: then
   * it is the beginning.
   */
  placeAfter(id: string | null): number {
    const match = /^(\d{1,9})(?:\.(\d{1,9}))?$/.exec(id ?? "");
    const entry = this.#stored[Number(match?.[1])];
    if (entry === undefined) return 0;
    const number = Number(match?.[2] ?? 0);
    const next = this.#stored[Number(match?.[1]) + 1] ?? this.#ends.length;
    // The record has no ephemeral events; what came after this one is what comes after its stored one.
    return this.#ends[Math.min(entry + number, next - 1)] ?? 0;
  }

  /** What there is from a place on, in one piece, as far as it lies together; empty at the end of it. */
  read(place: number): Uint8Array | undefined {
    if (place >= this.#size) return undefined;
    const page = this.#pageAt(place);
    return page?.bytes.subarray(place - page.start, page.used);
  }

  #pageAt(place: number): Page | undefined {
    let [low, high] = [0, this.#pages.length - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if ((this.#pages[middle]?.start ?? 0) <= place) low = middle;
      else high = middle - 1;
    }
    return this.#pages[low];
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
    // Even when nothing has to be waited for: what is emitted in one turn goes out together.
    const pause = wait === 0 ? Promise.resolve() : this.#clock.sleep(wait);
    pause.then(() => this.#tell());
  }

  #tell(): void {
    this.#isTelling = false;
    this.#toldAt = this.#clock.now();
    for (const listener of this.#listeners) listener();
  }
}
