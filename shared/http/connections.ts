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
  requests: number;
}

/** Counts requests by connection. */
export class Connections {
  /** By the client's address and port, for a request's socket is the TLS layer over the one accepted here. */
  readonly #open = new Map<string, Connection>();

  /** To be told of every accepted connection, before its TLS handshake. */
  add(socket: Socket): void {
    const key = keyOf(socket);
    this.#open.set(key, { socket, requests: 0 });
    socket.on("close", () => this.#open.delete(key));
  }

  /** To be told of every request. */
  begin(socket: Socket, outgoing: ServerResponse): void {
    const connection = this.#open.get(keyOf(socket));
    if (connection === undefined) return;
    connection.requests++;
    outgoing.on("close", () => connection.requests--);
  }

  /** Ends all connections without a request; a server that closes ends the others after their answers. */
  closeIdle(): void {
    for (const { socket, requests } of this.#open.values()) {
      if (requests === 0) socket.destroy();
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
