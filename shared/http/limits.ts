/**
 * Limits of a listener: how many connections its peers may have, and how many requests a minute.
 *
 * @module
 */
import type { Clock } from "../clock.ts";
import ipaddr from "ipaddr.js";

/** A peer with a verified identity. Only `reserved` peers, such as operators, can use the reserved connections. */
interface AuthenticatedPeer {
  readonly kind: "authenticated" | "reserved";
  /** The name of the peer. The limit is shared fairly between names. */
  readonly name?: string;
}

/** Whether a peer has proved its identity. */
export type PeerStatus = { readonly kind: "unauthenticated" } | AuthenticatedPeer;

/** The most open connections of a listener. */
export interface ConnectionLimits {
  readonly unauthenticated: number;
  /** Unauthenticated connections from one IPv4 address or one IPv6 /64 network. */
  readonly unauthenticatedPerSource: number;
  readonly authenticated: number;
  /** Additional connections that only `reserved` peers can use. */
  readonly reserved: number;
}

/** Numbers of connections. */
export type ConnectionCounts = Pick<ConnectionLimits, "unauthenticated" | "authenticated">;

/** The default limits: 1,024 connections in total, the usual limit of open files. */
export const DEFAULT_LIMITS: ConnectionLimits = {
  unauthenticated: 256,
  unauthenticatedPerSource: 128,
  authenticated: 704,
  reserved: 64,
};

/** Limits the open connections of a listener. */
export class ConnectionLimiter<Connection> {
  readonly #limits: ConnectionLimits;
  /** Unauthenticated connections by source, the oldest first. */
  readonly #sources = new Map<string, Set<Connection>>();
  readonly #sourceOf = new Map<Connection, string>();
  readonly #authenticated = new Map<Connection, string | undefined>();
  readonly #shares = new Map<string, number>();

  constructor(limits: ConnectionLimits) {
    this.#limits = limits;
  }

  /**
   * Adds an unauthenticated connection. Above the limit, the oldest one is closed, because an honest peer authenticates
   * immediately and an attacker holds connections for long.
   *
   * @returns the connection to close
   */
  add(connection: Connection, address: string): Connection | undefined {
    const source = sourceOf(address);
    const peers = this.#sources.get(source) ?? new Set();
    this.#sources.set(source, peers.add(connection));
    this.#sourceOf.set(connection, source);
    let largest: Set<Connection> | undefined;
    if (peers.size > this.#limits.unauthenticatedPerSource) largest = peers;
    else if (this.#sourceOf.size > this.#limits.unauthenticated) {
      largest = [...this.#sources.values()].reduce((a, b) => b.size > a.size ? b : a);
    }
    const [oldest] = largest ?? [];
    if (oldest !== undefined) this.remove(oldest);
    return oldest;
  }

  /**
   * Marks a connection as authenticated if the limit allows it. A named peer gets another connection while it has fewer
   * than are free (dynamic threshold of Choudhury and Hahne, 1998): one peer can have half of them.
   */
  admit(connection: Connection, { kind, name }: AuthenticatedPeer): boolean {
    if (!this.#sourceOf.has(connection)) return this.#authenticated.has(connection);
    const { authenticated, reserved } = this.#limits;
    const free = authenticated + (kind === "reserved" ? reserved : 0) - this.#authenticated.size;
    const own = name === undefined ? 0 : this.#shares.get(name) ?? 0;
    if ((kind === "reserved" ? 0 : own) >= free) return false;
    this.remove(connection);
    this.#authenticated.set(connection, name);
    if (name !== undefined) this.#shares.set(name, own + 1);
    return true;
  }

  isAuthenticated(connection: Connection): boolean {
    return this.#authenticated.has(connection);
  }

  get counts() {
    return { unauthenticated: this.#sourceOf.size, authenticated: this.#authenticated.size };
  }

  remove(connection: Connection): void {
    const name = this.#authenticated.get(connection);
    this.#authenticated.delete(connection);
    if (name !== undefined) {
      const own = (this.#shares.get(name) ?? 0) - 1;
      if (own > 0) this.#shares.set(name, own);
      else this.#shares.delete(name);
    }
    const source = this.#sourceOf.get(connection) ?? "";
    this.#sourceOf.delete(connection);
    const peers = this.#sources.get(source);
    peers?.delete(connection);
    if (peers?.size === 0) this.#sources.delete(source);
  }
}

/** The source of a connection: an IPv4 address or an IPv6 /64 network, because one person can have all of its addresses. */
export function sourceOf(address: string): string {
  if (!ipaddr.isValid(address)) return address;
  const parsed = ipaddr.process(address);
  return parsed instanceof ipaddr.IPv6 ? parsed.parts.slice(0, 4).join(":") : parsed.toString();
}

/** The outcome of taking a token. */
export type TakeResult = { readonly ok: true } | { readonly ok: false; readonly retryAfterSeconds: number };

/** After this time every bucket is full, so the limiter can forget it. */
const IDLE_MS = 60_000;

/** Token buckets by key, in bounded memory. */
export class TokenBuckets {
  readonly #clock: Clock;
  readonly #maxKeys: number;
  /** The least recently used first. */
  readonly #buckets = new Map<string, { tokens: number; countedAt: number }>();

  /** Creates a limiter without keys. */
  constructor({ clock, maxKeys = 4096 }: { readonly clock: Clock; readonly maxKeys?: number }) {
    this.#clock = clock;
    this.#maxKeys = maxKeys;
  }

  /** The number of remembered keys. */
  get size(): number {
    return this.#buckets.size;
  }

  /**
   * Takes one token of a key. A bucket starts full and refills evenly up to `perMinute`; 0 or less means no limit. A
   * changed limit acts immediately and never adds tokens.
   */
  take(key: string, perMinute: number): TakeResult {
    if (perMinute <= 0) return { ok: true };
    const now = this.#clock.now();
    if (!this.#buckets.has(key)) this.#makeRoom(now);
    const tokens = this.#tokensOf(key, perMinute);
    this.#buckets.delete(key);
    this.#buckets.set(key, { tokens: tokens < 1 ? tokens : tokens - 1, countedAt: now });
    return resultOf(tokens, perMinute);
  }

  /** The result that {@linkcode take} would have now, without taking. */
  peek(key: string, perMinute: number): TakeResult {
    return perMinute <= 0 ? { ok: true } : resultOf(this.#tokensOf(key, perMinute), perMinute);
  }

  /** Returns a token. */
  giveBack(key: string): void {
    const bucket = this.#buckets.get(key);
    if (bucket !== undefined) bucket.tokens += 1;
  }

  #tokensOf(key: string, perMinute: number): number {
    const { tokens, countedAt } = this.#buckets.get(key) ?? { tokens: perMinute, countedAt: 0 };
    // If the clock is set back, tokens are not removed and the refill continues.
    const elapsedMs = Math.max(0, this.#clock.now() - countedAt);
    return Math.min(perMinute, tokens + elapsedMs * perMinute / 60_000);
  }

  /** Forgets all idle keys or, if there is none, the least recently used key. */
  #makeRoom(now: number): void {
    if (this.#buckets.size < this.#maxKeys) return;
    for (const [key, { countedAt }] of this.#buckets) {
      if (now - countedAt <= IDLE_MS && this.#buckets.size < this.#maxKeys) return;
      this.#buckets.delete(key);
    }
  }
}

function resultOf(tokens: number, perMinute: number): TakeResult {
  return tokens < 1 ? { ok: false, retryAfterSeconds: Math.max(1, Math.ceil(60 / perMinute)) } : { ok: true };
}
