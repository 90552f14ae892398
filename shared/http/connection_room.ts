/**
 * Who may have a connection of a listener, when there are more peers than connections: those of whom nothing is
 * known never take the place of those who have proved who they are.
 *
 * @module
 */
import ipaddr from "ipaddr.js";

/** A peer that has proved who it is. */
export interface KnownPeer {
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
  /** Of peers that have. */
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

  /** How many there are. */
  get counts(): ConnectionCounts {
    return { strangers: this.#sourceOf.size, known: this.#known.size };
  }

  /** Forgets a connection. */
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
