import { AppError } from "@gateway/shared/errors";
import { EventLog } from "../runs/event_log.ts";
import type { StoredEvent } from "../runs/record.ts";
import type { WebPorts } from "./ports.ts";
import type { Subscribers } from "./subscribers.ts";

/** How many finished runs are kept in the form for subscribers, since many clients may look at one at once. */
const MAX_REPLAYS = 4;

/** Streams of events, of runs in progress and of stored ones. */
export class EventStreams {
  readonly #ports: WebPorts;
  readonly #subscribers: Subscribers;
  readonly #replays = new Map<string, Promise<EventLog | undefined>>();

  constructor(ports: WebPorts, subscribers: Subscribers) {
    this.#ports = ports;
    this.#subscribers = subscribers;
  }

  /** `GET /api/runs/{run_id}/events`. If there is no such run, the answer is a single event. */
  async handle(request: Request, runId: string): Promise<Response> {
    const lastEventId = request.headers.get("last-event-id");
    const live = this.#ports.manager.find(runId);
    const log = live?.log ?? await this.#replay(runId);
    if (log !== undefined) return this.#subscribers.follow(log, lastEventId);
    // Otherwise the browser of an open page would reconnect forever.
    if (lastEventId !== null) return new Response(null, { status: 204 });
    return this.#subscribers.follow(this.#write([{ type: "error", message: "There is no such run" }]), null);
  }

  forget(runId: string): void {
    this.#replays.delete(runId);
  }

  #replay(runId: string): Promise<EventLog | undefined> {
    const known = this.#replays.get(runId);
    if (known !== undefined) return known;
    const replay = this.#read(runId);
    const [oldest] = this.#replays.keys();
    if (this.#replays.size >= MAX_REPLAYS && oldest !== undefined) this.#replays.delete(oldest);
    this.#replays.set(runId, replay);
    // Only runs that were found are kept.
    const forget = () => {
      if (this.#replays.get(runId) === replay) this.#replays.delete(runId);
    };
    replay.then((log) => log === undefined && forget(), forget);
    return replay;
  }

  async #read(runId: string): Promise<EventLog | undefined> {
    try {
      const stored = await this.#ports.store.read(runId);
      return stored === undefined ? undefined : this.#write(stored.record.events);
    } catch (error) {
      // A damaged record.
      if (error instanceof AppError) return this.#write([{ type: "error", message: error.message }]);
      throw error;
    }
  }

  #write(events: readonly StoredEvent[]): EventLog {
    const log = new EventLog(this.#ports.clock);
    for (const event of events) log.append({ type: event.type, json: JSON.stringify(event) });
    log.end();
    return log;
  }
}
