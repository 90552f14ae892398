/**
 * The connections of a listener: who may have one, how long a peer may take to say who it is, and which of them
 * carry a request just now, so that closing the listener waits for those and for no others.
 *
 * @module
 */
import type { ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Clock } from "../clock.ts";
import {
  type ConnectionCounts,
  type ConnectionLimits,
  ConnectionRoom,
  type Standing,
} from "./connection_room.ts";

interface Connection {
  /** As accepted. */
  readonly socket: Socket;
  /** Aborted when its peer has identified itself or sent the headers of a request: it ends the connection otherwise. */
  readonly identified: AbortController;
  /** To the newest request; answers leave in the order of the requests, so that it is the last to end. */
  lastAnswer?: ServerResponse;
  /** Requests that have not been answered. */
  unanswered: number;
  /** Whether an answer has said that it is the last. */
  isClosing: boolean;
  /** Whether its next answer is to be the last. */
  isRetired: boolean;
}

/**
 * Requests that a client may send on a connection before the first of them is answered (pipelining). No client
 * that we know sends more than one; without a bound, one connection could have any number handled at once.
 */
const MAX_UNANSWERED = 16;

/** How long what a client still sends is dropped after the last answer. */
const LINGER_MS = 1000;

/**
 * A connection's time is waited for in so many parts. While the event loop is blocked, what the peer sends is not read:
 * one late timer then costs the peer one part of its time, not all of it.
 */
const WAIT_PARTS = 10;

/** Given to every timer that is no longer needed: an error would be made with a stack that nobody reads. */
const OVER = "over";

/** The bounds of {@linkcode Connections}. */
export interface ConnectionsOptions extends ConnectionLimits {
  /** Measures how long peers take. */
  readonly clock: Clock;
  /** How long a stranger may take until the headers of its first request have arrived, in milliseconds. */
  readonly identifyMs: number;
}

/** The open connections and their answers. */
export class Connections {
  readonly #clock: Clock;
  readonly #identifyMs: number;
  readonly #room: ConnectionRoom<Connection>;
  /** By the client's address and port, because a request's socket is the TLS layer over the one accepted here. */
  readonly #open = new Map<string, Connection>();
  /** By that TLS layer, or where there is none by the socket itself. */
  readonly #begun = new WeakMap<object, Connection>();

  constructor({ clock, identifyMs, ...limits }: ConnectionsOptions) {
    this.#clock = clock;
    this.#identifyMs = identifyMs;
    this.#room = new ConnectionRoom(limits);
  }

  /** How many are open. */
  get counts(): ConnectionCounts {
    return this.#room.counts;
  }

  /** To be told of every accepted connection, before its TLS handshake. */
  add(socket: Socket): void {
    const key = keyOf(socket);
    const identified = new AbortController();
    this.#destroyAfter(this.#identifyMs, socket, identified);
    const connection = { socket, identified, unanswered: 0, isClosing: false, isRetired: false };
    this.#open.set(key, connection);
    socket.on("close", () => {
      this.#open.delete(key);
      this.#room.leave(connection);
    });
    this.#room.enter(connection, socket.remoteAddress ?? "")?.socket.destroy();
  }

  /** To be told of every connection on which HTTP can begin: of every TLS handshake that is complete. */
  begin(socket: Socket, standing: Standing): void {
    const connection = this.#open.get(keyOf(socket));
    if (connection === undefined) return;
    this.#begun.set(socket, connection);
    this.#admit(connection, standing);
  }

  /** Makes the peer of a connection a known one; where there is no room for that its next answer is its last. */
  trust(socket: object, name?: string): void {
    const connection = this.#begun.get(socket);
    if (connection !== undefined) {
      this.#admit(connection, { kind: "known", ...(name !== undefined && { name }) });
    }
  }

  #admit(connection: Connection, standing: Standing): void {
    if (standing.kind !== "stranger" && this.#room.admit(connection, standing)) {
      connection.identified.abort(OVER);
    }
  }

  /**
   * To be told of every request.
   *
   * @returns whether it is to be answered; a connection with too many that are not is closed
   */
  beginRequest(socket: Socket, outgoing: ServerResponse): boolean {
    const connection = this.#begun.get(socket);
    if (connection === undefined) return true;
    if (connection.isClosing) return false;
    if (connection.unanswered >= MAX_UNANSWERED) {
      connection.socket.destroy();
      return false;
    }
    connection.identified.abort(OVER);
    connection.unanswered += 1;
    outgoing.on("close", () => connection.unanswered -= 1);
    connection.lastAnswer = outgoing;
    return true;
  }

  /** Whether a connection may stay open for another request. */
  mayStay(socket: object): boolean {
    const connection = this.#begun.get(socket);
    return connection !== undefined && !connection.isClosing && !connection.isRetired &&
      this.#room.isKnown(connection);
  }

  /**
   * Has a connection closed after the answer that is about to be sent. What the client still sends is read and
   * dropped for a moment: closing over unread bytes resets the connection, and the answer may be lost with it
   * (RFC 9112, section 9.6).
   */
  closeAfter(socket: Socket): void {
    const connection = this.#begun.get(socket);
    if (connection !== undefined) connection.isClosing = true;
    // What `node:http` calls when the last answer is on its way.
    socket.destroySoon = () => {
      socket.end();
      this.#destroyAfter(LINGER_MS, connection?.socket ?? socket, new AbortController());
    };
  }

  /** @param kept the socket is left alone when it is aborted, as it is when the socket closes */
  #destroyAfter(ms: number, socket: Socket, kept: AbortController): void {
    socket.on("close", () => kept.abort(OVER));
    void this.#destroyInParts(ms / WAIT_PARTS, socket, kept.signal).catch(() => {});
  }

  async #destroyInParts(ms: number, socket: Socket, kept: AbortSignal): Promise<void> {
    for (let part = 0; part < WAIT_PARTS; part++) await this.#clock.sleep(ms, kept);
    socket.destroy();
  }

  /** The answer to the newest request of a connection, begun or not. */
  lastAnswer(socket: object): ServerResponse | undefined {
    return this.#begun.get(socket)?.lastAnswer;
  }

  /** Ends all connections without a request; a server that closes ends the others after their answers. */
  closeIdle(): void {
    for (const { socket, lastAnswer } of this.#open.values()) {
      if (lastAnswer === undefined || lastAnswer.writableFinished) socket.destroy();
    }
  }

  /** Ends all connections: those that carry a request after the answer to it. */
  retire(): void {
    for (const connection of this.#open.values()) connection.isRetired = true;
    this.closeIdle();
  }

  /** Ends all connections. */
  closeAll(): void {
    for (const { socket } of this.#open.values()) socket.destroy();
  }
}

function keyOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}
