import { type Clock, every } from "@gateway/shared/clock";
import { AppError } from "@gateway/shared/errors";
import { EventLog } from "../runs/event_log.ts";
import type { StoredEvent } from "../runs/record.ts";
import type { RunManager } from "../runs/manager.ts";
import type { RunStore } from "../runs/store.ts";

/** A stream without events sends a keep-alive comment after this time. */
const KEEP_ALIVE_MS = 15_000;
/** A subscriber that reads nothing for this time is dropped. A browser then reconnects and continues. */
const STALLED_MS = 60_000;
const CHECK_SECONDS = 5;
const MAX_SUBSCRIBERS = 2000;

const ENCODER = new TextEncoder();
const KEEP_ALIVE = ENCODER.encode(": keep-alive\n\n");
/** The delay before a browser reconnects. */
const GREETING = ENCODER.encode("retry: 1000\n\n");

export class Subscribers {
  readonly #clock: Clock;
  readonly #all = new Set<ReturnType<typeof createSubscriber>>();

  constructor(clock: Clock, signal: AbortSignal) {
    this.#clock = clock;
    every({ clock, seconds: CHECK_SECONDS, signal }, () => {
      for (const subscriber of this.#all) subscriber.check(clock.now());
    });
    signal.addEventListener("abort", () => {
      for (const subscriber of this.#all) subscriber.close();
    }, { once: true });
  }

  get size(): number {
    return this.#all.size;
  }

  /** @param lastEventId the ID of the last event that the client has received, or `null` */
  follow(log: EventLog, lastEventId: string | null): Response {
    const place = log.placeAfter(lastEventId);
    // After status 204, a browser does not reconnect.
    if (lastEventId !== null && log.isEnded && place >= log.size) return new Response(null, { status: 204 });
    if (this.#all.size >= MAX_SUBSCRIBERS) {
      const text = `The limit of ${MAX_SUBSCRIBERS} event streams is reached`;
      throw new AppError("rate_limited", text, { retryAfterSeconds: 30 });
    }
    const onClose = () => void this.#all.delete(subscriber);
    const subscriber = createSubscriber(log, place, this.#clock, onClose);
    this.#all.add(subscriber);
    return new Response(new ReadableStream(subscriber.source, { highWaterMark: 1 }), {
      headers: {
        "content-type": "text/event-stream; charset=utf-8",
        // Proxies must not cache, compress or buffer the stream.
        "cache-control": "no-cache, no-transform",
        "x-accel-buffering": "no",
      },
    });
  }
}

function createSubscriber(log: EventLog, start: number, clock: Clock, onClose: () => void) {
  let place = start;
  let controller: ReadableStreamDefaultController<Uint8Array> | undefined;
  let stopListening = () => {};
  let movedAt = clock.now();

  /** Sends events as long as the subscriber reads them. */
  function pull(): void {
    while (controller !== undefined && (controller.desiredSize ?? 0) > 0) {
      const bytes = log.read(place);
      if (bytes === undefined) return log.isEnded ? close() : undefined;
      place += bytes.length;
      movedAt = clock.now();
      controller.enqueue(bytes);
    }
  }

  function cancel(): void {
    controller = undefined;
    stopListening();
    onClose();
  }

  function close(): void {
    controller?.close();
    cancel();
  }

  return {
    source: {
      start(opened: ReadableStreamDefaultController<Uint8Array>) {
        controller = opened;
        opened.enqueue(GREETING);
        stopListening = log.listen(pull);
      },
      pull,
      cancel,
    },
    close,
    check(now: number): void {
      const open = controller;
      if (open === undefined) return;
      const stillMs = now - movedAt;
      if ((open.desiredSize ?? 0) > 0) {
        if (stillMs < KEEP_ALIVE_MS) return;
        movedAt = now;
        open.enqueue(KEEP_ALIVE);
      } else if (stillMs >= STALLED_MS) {
        cancel();
        open.error(new Error("the subscriber does not read"));
      }
    },
  };
}

/** The event logs of this number of finished runs stay in memory, because many clients may open the same run. */
const MAX_REPLAYS = 4;

export type EventStreams = ReturnType<typeof createEventStreams>;

export function createEventStreams({ clock, manager, store, stopping }: {
  readonly clock: Clock;
  readonly manager: RunManager;
  readonly store: RunStore;
  readonly stopping: AbortSignal;
}) {
  const subscribers = new Subscribers(clock, stopping);
  const replays = new Map<string, Promise<EventLog | undefined>>();

  function write(events: readonly StoredEvent[]): EventLog {
    const log = new EventLog(clock);
    for (const event of events) log.append({ type: event.type, json: JSON.stringify(event) });
    log.end();
    return log;
  }

  async function read(runId: string): Promise<EventLog | undefined> {
    try {
      const stored = await store.read(runId);
      return stored && write(stored.record.events);
    } catch (error) {
      // The record is damaged.
      if (error instanceof AppError) return write([{ type: "error", message: error.message }]);
      throw error;
    }
  }

  function replay(runId: string): Promise<EventLog | undefined> {
    const known = replays.get(runId);
    if (known !== undefined) return known;
    const log = read(runId);
    const [oldest] = replays.keys();
    if (replays.size >= MAX_REPLAYS && oldest !== undefined) replays.delete(oldest);
    replays.set(runId, log);
    // A missing run or a failure is not cached.
    const forget = () => {
      if (replays.get(runId) === log) replays.delete(runId);
    };
    log.then((found) => found === undefined && forget(), forget);
    return log;
  }

  return {
    /** The stream of an unknown run is a single event. */
    async handle(request: Request, runId: string): Promise<Response> {
      const lastEventId = request.headers.get("last-event-id");
      const log = manager.find(runId)?.log ?? await replay(runId);
      if (log !== undefined) return subscribers.follow(log, lastEventId);
      // Otherwise, the browser of an open page would reconnect forever.
      if (lastEventId !== null) return new Response(null, { status: 204 });
      return subscribers.follow(write([{ type: "error", message: "No such run" }]), null);
    },
    forget: (runId: string): void => void replays.delete(runId),
  };
}
