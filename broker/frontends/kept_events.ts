import { type EventStore, type JSONRPCMessage, ProtocolErrorCode } from "@modelcontextprotocol/server";
import { textLength } from "./user_limit.ts";

interface KeptEventsLimits {
  /** Of one end user, in characters. */
  readonly userLength: number;
  readonly totalLength: number;
}

interface KeptEvent {
  readonly session: KeptSession;
  readonly streamId: string;
  readonly number: number;
  message: JSONRPCMessage;
  length: number;
}

interface KeptSession {
  readonly user: string;
  readonly events: Set<KeptEvent>;
}

/** Events in the order of their arrival. */
interface Shelf {
  length: number;
  /** Answers that a note can take the place of. */
  readonly long: Set<KeptEvent>;
  readonly short: Set<KeptEvent>;
}

/** What an event costs beside its message. */
const OVERHEAD = 200;
/** An answer that is shorter is not worth a note. */
const NOTE_LENGTH = 600;
const EVENT_ID = /^(?<streamId>.+)_(?<number>\d{1,15})$/;

/**
 * The messages that went to clients, or would have if the connection were still there, so that a client that
 * lost it gets them when it asks again with `Last-Event-ID` (MCP Streamable HTTP, Resumability). Beyond the
 * limits the oldest go first: of the same user, then of any. In place of a long answer a note is kept for as long
 * as there is room for notes, or its client would wait for ever.
 */
export class KeptEvents {
  readonly #limits: KeptEventsLimits;
  readonly #sessions = new Map<string, KeptSession>();
  readonly #users = new Map<string, Shelf>();
  readonly #all = createShelf();
  #lastNumber = 0;

  constructor(limits: KeptEventsLimits) {
    this.#limits = limits;
  }

  /** How much is kept of all, in characters. */
  get length(): number {
    return this.#all.length;
  }

  /** The store of a new session, which sees nothing of the others. */
  storeOf(sessionId: string, user: string): EventStore {
    const session: KeptSession = { user, events: new Set() };
    this.#sessions.set(sessionId, session);
    return {
      storeEvent: (streamId, message) => {
        this.#lastNumber += 1;
        const length = textLength(message) + OVERHEAD;
        const event: KeptEvent = { session, streamId, number: this.#lastNumber, message, length };
        // A call may end after its session.
        if (this.#sessions.get(sessionId) === session) this.#keep(event);
        return Promise.resolve(idOf(event));
      },
      // The id alone tells the stream, so that a client with an old id still gets what came after it. That the
      // library can't ask for the stream beforehand lets a client take up a stream whose connection has been
      // lost without our knowledge.
      replayEventsAfter: async (lastId, { send }) => {
        const { streamId = "", number } = EVENT_ID.exec(lastId)?.groups ?? {};
        for (const event of [...session.events]) {
          if (event.streamId === streamId && event.number > Number(number)) {
            await send(idOf(event), event.message);
          }
        }
        return streamId;
      },
    };
  }

  /** Forgets what is kept for a session. */
  forget(sessionId: string): void {
    for (const event of this.#sessions.get(sessionId)?.events ?? []) this.#drop(event);
    this.#sessions.delete(sessionId);
  }

  #keep(event: KeptEvent): void {
    const { userLength, totalLength } = this.#limits;
    // It would only push the others out, and then go itself.
    if (event.length > Math.min(userLength, totalLength)) shorten(event);
    this.#put(event);
    this.#shrink(this.#shelfOf(event.session.user), userLength);
    this.#shrink(this.#all, totalLength);
  }

  #shrink(shelf: Shelf, length: number): void {
    for (const oldest of shelf.long) {
      if (shelf.length <= length) return;
      this.#take(oldest);
      shorten(oldest);
      this.#put(oldest);
    }
    for (const oldest of shelf.short) {
      if (shelf.length <= length) return;
      this.#drop(oldest);
    }
  }

  #put(event: KeptEvent): void {
    event.session.events.add(event);
    for (const shelf of [this.#shelfOf(event.session.user), this.#all]) {
      shelf[isLong(event) ? "long" : "short"].add(event);
      shelf.length += event.length;
    }
  }

  /** Takes an event off its shelves; in its session it keeps its place. */
  #take(event: KeptEvent): void {
    for (const shelf of [this.#shelfOf(event.session.user), this.#all]) {
      shelf[isLong(event) ? "long" : "short"].delete(event);
      shelf.length -= event.length;
    }
  }

  #drop(event: KeptEvent): void {
    const { user, events } = event.session;
    events.delete(event);
    this.#take(event);
    if (this.#shelfOf(user).length === 0) this.#users.delete(user);
  }

  #shelfOf(user: string): Shelf {
    const shelf = this.#users.get(user) ?? createShelf();
    this.#users.set(user, shelf);
    return shelf;
  }
}

/** Whether a text can be the id of an event. */
export function isEventId(text: string): boolean {
  return EVENT_ID.test(text);
}

function createShelf(): Shelf {
  return { length: 0, long: new Set(), short: new Set() };
}

function isLong({ message, length }: KeptEvent): boolean {
  return "result" in message && length > NOTE_LENGTH;
}

/** Puts a note in the place of an answer. */
function shorten(event: KeptEvent): void {
  const { message, length } = event;
  if (!("result" in message)) return;
  const text = `the call has ended, but its answer of about ${length} characters was not kept for a client ` +
    "whose connection was lost: what it did is in the audit log; let it print less";
  event.message = {
    jsonrpc: "2.0",
    id: message.id,
    error: { code: ProtocolErrorCode.InternalError, message: text },
  };
  event.length = textLength(event.message) + OVERHEAD;
}

function idOf({ streamId, number }: KeptEvent): string {
  return `${streamId}_${number}`;
}
