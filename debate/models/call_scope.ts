/**
 * How long one call of a model may last: until its reply, its deadline, a stream that falls silent, or the wish of
 * the caller.
 *
 * @module
 */
import type { Clock } from "@gateway/shared/clock";
import { ModelError, type ModelErrorKind } from "./model.ts";

/** The longest answer to one HTTP request. A stream has about 50 times the bytes of its text. */
const MAX_BYTES = 32 * 1024 * 1024;

/** Why a wait for the next piece is over; made once, for with every piece it costs a tenth of the work. */
const HEARD = new Error("heard");

/** The bounds of a call. */
export interface CallBounds {
  /** How messages call the model. */
  readonly what: string;
  readonly clock: Clock;
  /** For the whole call with its retries, in milliseconds. */
  readonly timeoutMs: number;
  /** Between two pieces of a stream, in milliseconds. */
  readonly idleMs: number;
  /** The caller's. */
  readonly signal: AbortSignal;
}

/** A call under way. Disposing of it ends whatever it still waits for. */
export class CallScope implements Disposable {
  readonly #bounds: CallBounds;
  readonly #controller = new AbortController();
  #ended: ModelError | undefined;

  constructor(bounds: CallBounds) {
    this.#bounds = bounds;
    const { what, clock, timeoutMs, signal } = bounds;
    signal.addEventListener("abort", this.#cancel, { once: true });
    if (signal.aborted) this.#cancel();
    const late = `${what} gave no reply within ${timeoutMs / 1000} s`;
    clock.sleep(timeoutMs, this.signal).then(() => this.#end("timeout", late), () => {});
  }

  /** Aborted when the call is over, for whatever reason. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Why the call had to end. */
  get ended(): ModelError | undefined {
    return this.#ended;
  }

  /** @throws {ModelError} when the call had to end */
  check(): void {
    if (this.#ended !== undefined) throw this.#ended;
  }

  /**
   * Waits for a promise, but not beyond the end of the call.
   *
   * @throws {ModelError} when the call had to end
   */
  async wait<T>(promise: Promise<T>): Promise<T> {
    const over = Promise.withResolvers<never>();
    const onAbort = () => over.reject(this.#ended);
    this.signal.addEventListener("abort", onAbort, { once: true });
    promise.catch(() => {});
    try {
      this.check();
      return await Promise.race([promise, over.promise]);
    } finally {
      this.signal.removeEventListener("abort", onAbort);
    }
  }

  /** Waits for a while. */
  sleep(ms: number): Promise<void> {
    return this.wait(this.#bounds.clock.sleep(ms, this.signal));
  }

  /** Passes a body through, ends the call when it falls silent, and breaks it off when it is too long. */
  watch(body: ReadableStream<Uint8Array<ArrayBuffer>>): ReadableStream<Uint8Array<ArrayBuffer>> {
    const { clock, idleMs, what } = this.#bounds;
    const silent = `${what} fell silent for ${idleMs / 1000} s in mid-reply`;
    const reader = body.getReader();
    let length = 0;
    return new ReadableStream({
      pull: async (controller) => {
        const heard = new AbortController();
        clock.sleep(idleMs, heard.signal).then(() => this.#end("timeout", silent), () => {});
        try {
          const { done, value } = await reader.read();
          if (done) return controller.close();
          length += value.length;
          if (length > MAX_BYTES) {
            throw new ModelError("bad_reply", `the answer is longer than ${MAX_BYTES} bytes`);
          }
          controller.enqueue(value);
        } catch (error) {
          reader.cancel(error).catch(() => {});
          throw error;
        } finally {
          heard.abort(HEARD);
        }
      },
      cancel: (reason) => reader.cancel(reason),
    }, { highWaterMark: 0 });
  }

  [Symbol.dispose](): void {
    this.#bounds.signal.removeEventListener("abort", this.#cancel);
    this.#controller.abort();
  }

  readonly #cancel = (): void => this.#end("canceled", `The call of ${this.#bounds.what} was canceled`);

  #end(kind: ModelErrorKind, message: string): void {
    if (this.signal.aborted) return;
    this.#ended = new ModelError(kind, message);
    this.#controller.abort(this.#ended);
  }
}
