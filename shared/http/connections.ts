/**
 * The connections of a listener: who may have one, how long a peer may take to say who it is, and which of them
 * carry a request just now, so that closing the listener waits for those and for no others.
 *
 * @module
 */
import type { ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Clock } from "../clock.ts";
import ipaddr from "ipaddr.js";

interface Connection {
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
interface ConnectionsOptions extends ConnectionLimits {
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

  closeAll(): void {
    for (const { socket } of this.#open.values()) socket.destroy();
  }
}

function keyOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}

/** A peer that has proved who it is. */
interface KnownPeer {
  /** `reserved`: room is kept for it beyond the others, as for operators of a service that others keep busy. */
  readonly kind: "known" | "reserved";
  /** Whose connections count as one peer's; absent: nobody's in particular. */
  readonly name?: string;
}

/** How well a peer is known. */
export type Standing = { readonly kind: "stranger" } | KnownPeer;

/** Connections of a listener at a time. */
export interface ConnectionLimits {
  /** Of peers that have not identified themselves. */
  readonly strangers: number;
  /** Of those, from one IPv4 address or one IPv6 network of 64 bits. */
  readonly strangersPerSource: number;
  readonly known: number;
  /** So many more of `reserved` ones. */
  readonly reserved: number;
}

/** 1,024 in all, what a process may have open at least where nobody has raised it. */
export const DEFAULT_LIMITS: ConnectionLimits = {
  strangers: 256,
  strangersPerSource: 128,
  known: 704,
  reserved: 64,
};

/** How many connections there are, of peers that have identified themselves and of others. */
export type ConnectionCounts = Readonly<Pick<ConnectionLimits, "strangers" | "known">>;

/** Counts connections, whatever those are. */
export class ConnectionRoom<Connection> {
  readonly #limits: ConnectionLimits;
  /** Strangers by where they come from, the longest unidentified first. */
  readonly #sources = new Map<string, Set<Connection>>();
  readonly #sourceOf = new Map<Connection, string>();
  readonly #known = new Map<Connection, string | undefined>();
  /** Connections by the name of a known peer. */
  readonly #shares = new Map<string, number>();

  constructor(limits: ConnectionLimits) {
    this.#limits = limits;
  }

  /**
   * Takes a new connection in; its peer is a stranger.
   *
   * Not the new one is turned away when there are too many: whoever comes to identify himself does so at once,
   * while those who only hold a place have had theirs the longest.
   *
   * @returns the connection that has to go for it, and is forgotten; `undefined` when there is room
   */
  enter(connection: Connection, address: string): Connection | undefined {
    const source = sourceOf(address);
    const peers = this.#sources.get(source) ?? new Set();
    this.#sources.set(source, peers.add(connection));
    this.#sourceOf.set(connection, source);
    const crowd = peers.size > this.#limits.strangersPerSource
      ? peers
      : this.#sourceOf.size > this.#limits.strangers
      ? this.#largestSource()
      : undefined;
    const [oldest] = crowd ?? [];
    if (oldest !== undefined) this.leave(oldest);
    return oldest;
  }

  /**
   * Makes a stranger known; false when there is no room for that, and it remains a stranger.
   *
   * A peer gets one more connection while it has fewer than there are free ones (the dynamic threshold of Choudhury
   * and Hahne, 1998): one alone may have half of them, two a third each, and there is room for whoever comes next.
   */
  admit(connection: Connection, { kind, name }: KnownPeer): boolean {
    if (!this.#sourceOf.has(connection)) return this.#known.has(connection);
    const { known, reserved } = this.#limits;
    const free = known + (kind === "reserved" ? reserved : 0) - this.#known.size;
    const own = name === undefined || kind === "reserved" ? 0 : this.#shares.get(name) ?? 0;
    if (own >= free) return false;
    this.leave(connection);
    this.#known.set(connection, name);
    if (name !== undefined) this.#shares.set(name, (this.#shares.get(name) ?? 0) + 1);
    return true;
  }

  /** Whether a connection has room among the known ones. */
  isKnown(connection: Connection): boolean {
    return this.#known.has(connection);
  }

  get counts(): ConnectionCounts {
    return { strangers: this.#sourceOf.size, known: this.#known.size };
  }

  leave(connection: Connection): void {
    this.#leaveShare(this.#known.get(connection));
    this.#known.delete(connection);
    const source = this.#sourceOf.get(connection);
    if (source === undefined) return;
    this.#sourceOf.delete(connection);
    const peers = this.#sources.get(source);
    peers?.delete(connection);
    if (peers?.size === 0) this.#sources.delete(source);
  }

  #leaveShare(name: string | undefined): void {
    if (name === undefined) return;
    const own = (this.#shares.get(name) ?? 0) - 1;
    if (own > 0) this.#shares.set(name, own);
    else this.#shares.delete(name);
  }

  #largestSource(): Set<Connection> | undefined {
    let largest: Set<Connection> | undefined;
    for (const peers of this.#sources.values()) {
      if (largest === undefined || peers.size > largest.size) largest = peers;
    }
    return largest;
  }
}

/** What one peer can be taken to have of the address space: an IPv4 address, or the network of an IPv6 address. */
function sourceOf(address: string): string {
  if (!ipaddr.isValid(address)) return address;
  const parsed = ipaddr.process(address);
  return parsed instanceof ipaddr.IPv6 ? parsed.parts.slice(0, 4).join(":") : parsed.toString();
}
