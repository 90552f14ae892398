import type { EventStore, JSONRPCMessage } from "@modelcontextprotocol/server";

/** How much is kept. */
export interface KeptEventsLimits {
  /** Of one session, in characters of JSON. */
  readonly sessionLength: number;
  /** Of all sessions together. */
  readonly totalLength: number;
}

interface KeptEvent {
  readonly session: KeptSession;
  readonly streamId: string;
  readonly number: number;
  readonly message: JSONRPCMessage;
  readonly length: number;
}

interface KeptSession {
  length: number;
  readonly events: Set<KeptEvent>;
}

/** What an event costs beside its message. */
const OVERHEAD = 200;
const EVENT_ID = /^(?<streamId>.+)_(?<number>\d{1,15})$/;

/**
 * The messages that went to clients, or would have if the connection were still there, so that a client that
 * lost it gets them when it asks again with `Last-Event-ID` (MCP Streamable HTTP, Resumability). Beyond the
 * limits the oldest go first: of the same session, then of any.
 */
export class KeptEvents {
  readonly #limits: KeptEventsLimits;
  readonly #sessions = new Map<string, KeptSession>();
  /** In the order of arrival. */
  readonly #all = new Set<KeptEvent>();
  #length = 0;
  #lastNumber = 0;

  constructor(limits: KeptEventsLimits) {
    this.#limits = limits;
  }

  /** The store of a new session, which sees nothing of the others. */
  storeOf(sessionId: string): EventStore {
    const session: KeptSession = { length: 0, events: new Set() };
    this.#sessions.set(sessionId, session);
    return {
      storeEvent: (streamId, message) => {
        this.#lastNumber += 1;
        const length = JSON.stringify(message).length + OVERHEAD;
        const event = { session, streamId, number: this.#lastNumber, message, length };
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
    const { session } = event;
    session.events.add(event);
    this.#all.add(event);
    session.length += event.length;
    this.#length += event.length;
    for (const oldest of session.events) {
      if (session.length <= this.#limits.sessionLength) break;
      this.#drop(oldest);
    }
    for (const oldest of this.#all) {
      if (this.#length <= this.#limits.totalLength) break;
      this.#drop(oldest);
    }
  }

  #drop(event: KeptEvent): void {
    event.session.events.delete(event);
    this.#all.delete(event);
    event.session.length -= event.length;
    this.#length -= event.length;
  }
}

/** Whether a text can be the id of an event. */
export function isEventId(text: string): boolean {
  return EVENT_ID.test(text);
}

function idOf({ streamId, number }: KeptEvent): string {
  return `${streamId}_${number}`;
}
