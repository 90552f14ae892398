import { AppError } from "@gateway/shared/errors";
import { type EventStore, type JSONRPCMessage, ProtocolErrorCode } from "@modelcontextprotocol/server";
import { Semaphore } from "../request/semaphore.ts";
import { canceledBy } from "../request/records.ts";

/** The bounds of one user, so that no user can exhaust the broker. Lengths are in characters. */
export const USER_BOUNDS = {
  /** A call counts until its answer can be sent, even if its client has disconnected. */
  calls: 32,
  /** Requests without a complete response, streams included. */
  requests: 128,
  /** Each resumed stream holds the messages that it repeats. */
  "resumed streams": 16,
  /** Long answers that clients have not read yet. The transport holds each in several forms. */
  sending: 48 << 20,
  /** Messages for clients that resume a stream. 10 MiB of output take twice as much, as text and as structure. */
  kept: 24 << 20,
} as const;

const TOTAL_KEPT = 64 << 20;

/** Shorter answers never wait, so that a sleeping client does not block the user's other clients. */
export const SHORT_LENGTH = 64 << 10;

const TOO_LONG =
  "the call has ended, but the answers to this batch are too long in total; the audit log has the outcome; " +
  "send the calls one by one";

export class UserBudget {
  readonly #gates = new Map<string, Semaphore>();

  take(user: string, what: "calls" | "requests" | "resumed streams"): Disposable {
    const place = this.#gate(user, what).tryEnter();
    if (place !== undefined) return place;
    throw new AppError(
      "rate_limited",
      `too many concurrent ${what} (limit: ${USER_BOUNDS[what]}); wait until one ends`,
    );
  }

  /** Waits for room to send an answer. The end of the exchange frees the room. */
  async hold(user: string, exchange: Exchange, length: number, signal: AbortSignal): Promise<void> {
    if (length <= SHORT_LENGTH) return;
    if (signal.aborted) throw canceledBy(signal);
    const gate = this.#gate(user, "sending");
    // An exchange sends its answers together, so one answer must not wait for room that another one holds.
    if (exchange.longAnswers > 0 && !gate.hasRoom(length)) throw new AppError("rate_limited", TOO_LONG);
    exchange.longAnswers += 1;
    try {
      exchange.add(await gate.enter(signal, { size: length }));
    } catch (error) {
      exchange.longAnswers -= 1;
      throw error;
    }
  }

  #gate(user: string, what: keyof typeof USER_BOUNDS): Semaphore {
    const key = `${what}:${user}`;
    const gate = this.#gates.get(key) ?? new Semaphore(USER_BOUNDS[what], () => this.#gates.delete(key));
    this.#gates.set(key, gate);
    return gate;
  }
}

/** The places that an HTTP request holds until its client has read the response or disconnects. */
export class Exchange implements Disposable {
  readonly #places = new DisposableStack();
  longAnswers = 0;

  add(place: Disposable): void {
    if (this.#places.disposed) place[Symbol.dispose]();
    else this.#places.use(place);
  }

  [Symbol.dispose](): void {
    this.#places.dispose();
  }

  /**
   * Ends the exchange with the response's body. The body is not buffered ahead, so a client that reads
   * nothing keeps its place.
   */
  endWith(response: Response): Response {
    if (response.body === null) {
      this[Symbol.dispose]();
      return response;
    }
    const reader = response.body.getReader();
    const body = new ReadableStream<Uint8Array>({
      pull: async (controller) => {
        try {
          const { done, value } = await reader.read();
          if (!done) return controller.enqueue(value);
          controller.close();
        } catch (error) {
          controller.error(error);
        }
        this[Symbol.dispose]();
      },
      cancel: (reason) => {
        this[Symbol.dispose]();
        return reader.cancel(reason);
      },
    }, { highWaterMark: 0 });
    return new Response(body, response);
  }
}

const MEMBER_LENGTH = 16;

/** Estimates the characters of a JSON value, at least a sixth of its JSON text. Encoding it would need more memory. */
export function textLength(value: unknown): number {
  if (typeof value === "string") return value.length + MEMBER_LENGTH;
  if (typeof value !== "object" || value === null) return MEMBER_LENGTH;
  let length = MEMBER_LENGTH;
  for (const [name, member] of Object.entries(value)) length += name.length + textLength(member);
  return length;
}

interface KeptEvent {
  readonly streamId: string;
  readonly number: number;
  readonly session: ResumableSession;
  message: JSONRPCMessage;
  length: number;
}

interface ResumableSession {
  readonly user: string;
  readonly events: Set<KeptEvent>;
}

class EventBuffer {
  length = 0;
  readonly events = new Set<KeptEvent>();
  readonly long = new Set<KeptEvent>();
}

const EVENT_LENGTH = 200;
const NOTE_LENGTH = 600;
const EVENT_ID = /^(?<streamId>.+)_(?<number>\d{1,15})$/;

export function isEventId(text: string): boolean {
  return EVENT_ID.test(text);
}

/**
 * Keeps the messages of sessions, so that a client that lost its connection receives them when it sends
 * `Last-Event-ID` (MCP Streamable HTTP, Resumability). Beyond the bounds the oldest messages go first: of the same
 * user, then of all users. A note replaces a long answer, because its client would wait forever without an answer.
 */
export class ResumableEvents {
  readonly #bounds: { readonly user: number; readonly total: number };
  readonly #users = new Map<string, EventBuffer>();
  readonly #all = new EventBuffer();
  #lastNumber = 0;

  constructor(user: number = USER_BOUNDS.kept, total: number = TOTAL_KEPT) {
    this.#bounds = { user, total };
  }

  get length(): number {
    return this.#all.length;
  }

  /** Creates the store of a session, which shows nothing of other sessions. */
  open(user: string): EventStore & { close(): void } {
    const session: ResumableSession = { user, events: new Set() };
    let isOpen = true;
    return {
      storeEvent: (streamId, message) => {
        const length = textLength(message) + EVENT_LENGTH;
        const event = { session, streamId, number: ++this.#lastNumber, message, length };
        // A call may end after its session.
        if (isOpen) this.#keep(event);
        return Promise.resolve(idOf(event));
      },
      // The ID contains the stream, so that a client with an old ID receives all later messages. Without
      // getStreamIdForEventId() the library lets a client resume a stream whose connection still looks alive here.
      replayEventsAfter: async (lastId, { send }) => {
        const { streamId = "", number } = EVENT_ID.exec(lastId)?.groups ?? {};
        for (const event of [...session.events]) {
          if (event.streamId === streamId && event.number > Number(number)) {
            await send(idOf(event), event.message);
          }
        }
        return streamId;
      },
      close: () => {
        isOpen = false;
        for (const event of session.events) this.#drop(event);
      },
    };
  }

  #keep(event: KeptEvent): void {
    const buffers = [this.#bufferOf(event.session.user), this.#all];
    event.session.events.add(event);
    for (const buffer of buffers) {
      buffer.events.add(event);
      buffer.length += event.length;
      if ("result" in event.message && event.length > NOTE_LENGTH) buffer.long.add(event);
    }
    // Otherwise all other answers would be replaced by notes first.
    if (event.length > Math.min(this.#bounds.user, this.#bounds.total)) this.#shorten(event);
    this.#shrink(this.#bufferOf(event.session.user), this.#bounds.user);
    this.#shrink(this.#all, this.#bounds.total);
  }

  #shrink(buffer: EventBuffer, length: number): void {
    for (const oldest of buffer.long) {
      if (buffer.length <= length) return;
      this.#shorten(oldest);
    }
    for (const oldest of buffer.events) {
      if (buffer.length <= length) return;
      this.#drop(oldest);
    }
  }

  #shorten(event: KeptEvent): void {
    const { message, length } = event;
    if (!("result" in message)) return;
    const text =
      `the call has ended, but its answer of about ${length} characters was too long to keep after the lost ` +
      "connection; the audit log has the outcome; use a command that prints less";
    const error = { code: ProtocolErrorCode.InternalError, message: text };
    event.message = { jsonrpc: "2.0", id: message.id, error };
    event.length = textLength(event.message) + EVENT_LENGTH;
    for (const buffer of [this.#bufferOf(event.session.user), this.#all]) {
      buffer.long.delete(event);
      buffer.length += event.length - length;
    }
  }

  #drop(event: KeptEvent): void {
    const { user, events } = event.session;
    events.delete(event);
    for (const buffer of [this.#bufferOf(user), this.#all]) {
      buffer.long.delete(event);
      if (buffer.events.delete(event)) buffer.length -= event.length;
    }
    if (this.#bufferOf(user).length === 0) this.#users.delete(user);
  }

  #bufferOf(user: string): EventBuffer {
    const buffer = this.#users.get(user) ?? new EventBuffer();
    this.#users.set(user, buffer);
    return buffer;
  }
}

function idOf({ streamId, number }: KeptEvent): string {
  return `${streamId}_${number}`;
}
