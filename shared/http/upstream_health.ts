/**
 * Which of several services that answer alike can be asked: each is looked at in the background, and one that fails a
 * request is not asked first again before it answers.
 *
 * @module
 */
import { type Clock, every } from "../clock.ts";
import type { UpstreamClient } from "./upstream.ts";

const ASK_SECONDS = 1;
const ASK_TIMEOUT_MS = 2_000;
/** Whether it has such a page matters to nobody: "not found" is an answer. */
const PATH = "/healthz";
/** It is there, and does not take this service's certificate. */
const UNAUTHENTICATED = 401;

/** What an {@linkcode UpstreamHealth} needs. */
interface UpstreamHealthOptions {
  /** A connection of its own to each: one that hangs must not look healthy, nor one that is busy ill. */
  readonly probes: readonly UpstreamClient[];
  readonly clock: Clock;
  /** The one to ask at first; chosen by chance, it divides the load. */
  readonly first: number;
}

/** What is known of several services, by their places in the config. */
export class UpstreamHealth {
  readonly #options: UpstreamHealthOptions;
  readonly #isDown: boolean[];
  /** Not asked first before this time, because it has said so. */
  readonly #notBefore: number[];
  #current: number;

  constructor(options: UpstreamHealthOptions) {
    this.#options = options;
    this.#isDown = options.probes.map(() => false);
    this.#notBefore = options.probes.map(() => -Infinity);
    this.#current = options.first % options.probes.length;
  }

  /** Looks at all of them until the signal is aborted. Never rejects. */
  async run(signal: AbortSignal): Promise<void> {
    const { probes, clock } = this.#options;
    await Promise.all(
      probes.map((probe, place) =>
        every({ clock, seconds: ASK_SECONDS, signal }, async () => {
          try {
            const { status } = await probe.request({
              method: "GET",
              path: PATH,
              timeoutMs: ASK_TIMEOUT_MS,
              signal,
            });
            this.#isDown[place] = status === UNAUTHENTICATED;
          } catch {
            this.#isDown[place] = true;
          }
        })
      ),
    );
  }

  /** The places in the order to ask in: the one that was asked last as long as it is well, and those that are not at the end. */
  order(): readonly number[] {
    const now = this.#options.clock.now();
    const places = this.#isDown.map((_, index) => (this.#current + index) % this.#isDown.length);
    const isWell = (place: number) => this.#isDown[place] === false && (this.#notBefore[place] ?? 0) <= now;
    return [...places.filter(isWell), ...places.filter((place) => !isWell(place))];
  }

  answered(place: number): void {
    this.#current = place;
    this.#isDown[place] = false;
  }

  /** There was no answer. */
  failed(place: number): void {
    this.#isDown[place] = true;
  }

  /** It can decide nothing for so long. */
  avoid(place: number, seconds: number): void {
    this.#notBefore[place] = this.#options.clock.now() + seconds * 1000;
  }
}
