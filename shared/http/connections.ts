/**
 * The connections of a listener: which of them carry a request just now, so that closing the listener waits
 * for those and for no others.
 *
 * @module
 */
import type { ServerResponse } from "node:http";
import type { Socket } from "node:net";

interface Connection {
  readonly socket: Socket;
  /** To the newest request; answers leave in the order of the requests, so that it is the last to end. */
  lastAnswer?: ServerResponse;
  /** Requests that have not been answered. */
  unanswered: number;
}

/**
 * Requests that a client may send on a connection before the first of them is answered (pipelining). No client
 * that we know sends more than one; without a bound, one connection could have any number handled at once.
 */
const MAX_UNANSWERED = 16;

/** The open connections and their answers. */
export class Connections {
  /** By the client's address and port, for a request's socket is the TLS layer over the one accepted here. */
  readonly #open = new Map<string, Connection>();
  /** By that TLS layer. */
  readonly #secure = new WeakMap<object, Connection>();

  /** To be told of every accepted connection, before its TLS handshake. */
  add(socket: Socket): void {
    const key = keyOf(socket);
    this.#open.set(key, { socket, unanswered: 0 });
    socket.on("close", () => this.#open.delete(key));
  }

  /** To be told of every TLS handshake that is complete. */
  secure(socket: Socket): void {
    const connection = this.#open.get(keyOf(socket));
    if (connection !== undefined) this.#secure.set(socket, connection);
  }

  /**
   * To be told of every request.
   *
   * @returns whether it is to be answered; a connection with too many that are not is closed
   */
  begin(socket: Socket, outgoing: ServerResponse): boolean {
    const connection = this.#secure.get(socket);
    if (connection === undefined) return true;
    if (connection.unanswered >= MAX_UNANSWERED) {
      connection.socket.destroy();
      return false;
    }
    connection.unanswered += 1;
    outgoing.on("close", () => connection.unanswered -= 1);
    connection.lastAnswer = outgoing;
    return true;
  }

  /** The answer to the newest request of a connection, begun or not. */
  lastAnswer(socket: object): ServerResponse | undefined {
    return this.#secure.get(socket)?.lastAnswer;
  }

  /** Ends all connections without a request; a server that closes ends the others after their answers. */
  closeIdle(): void {
    for (const { socket, lastAnswer } of this.#open.values()) {
      if (lastAnswer === undefined || lastAnswer.writableFinished) socket.destroy();
    }
  }

  /** Ends all connections. */
  closeAll(): void {
    for (const { socket } of this.#open.values()) socket.destroy();
  }
}

function keyOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}
