/**
 * Limits of a listener: how many connections its peers may have, and how many requests a minute.
 *
 * @module
 */
import type { Clock } from "../clock.ts";
import ipaddr from "ipaddr.js";

/** A peer that has proved its identity. A `reserved` peer, such as an operator, has room that others cannot take. */
interface KnownPeer {
  readonly kind: "known" | "reserved";
  /** Connections of the same name share the room fairly with other names. */
  readonly name?: string;
}

/** Whether the peer has identified itself. */
export type Standing = { readonly kind: "stranger" } | KnownPeer;

/** Connections of a listener at a time. */
export interface ConnectionLimits {
  readonly strangers: number;
  /** Strangers from one IPv4 address or one IPv6 /64 network. */
  readonly strangersPerSource: number;
  readonly known: number;
  /** Additional room for `reserved` peers. */
  readonly reserved: number;
}

/** 1,024 in all, the usual limit of open files. */
export const DEFAULT_LIMITS: ConnectionLimits = {
  strangers: 256,
  strangersPerSource: 128,
  known: 704,
  reserved: 64,
};

/** Counts connections of any type. */
export class ConnectionRoom<Connection> {
  readonly #limits: ConnectionLimits;
  /** Strangers by source, the oldest first. */
  readonly #sources = new Map<string, Set<Connection>>();
  readonly #sourceOf = new Map<Connection, string>();
  readonly #known = new Map<Connection, string | undefined>();
  readonly #shares = new Map<string, number>();

  constructor(limits: ConnectionLimits) {
    this.#limits = limits;
  }

  /**
   * Adds a connection of a stranger. If there are too many, the oldest stranger loses its place, because an honest
   * peer identifies itself immediately, and an attacker holds connections for long.
   *
   * @returns the connection to close
   */
  enter(connection: Connection, address: string): Connection | undefined {
    const source = sourceOf(address);
    const peers = this.#sources.get(source) ?? new Set();
    this.#sources.set(source, peers.add(connection));
    this.#sourceOf.set(connection, source);
    let crowd: Set<Connection> | undefined;
    if (peers.size > this.#limits.strangersPerSource) crowd = peers;
    else if (this.#sourceOf.size > this.#limits.strangers) {
      crowd = [...this.#sources.values()].reduce((a, b) => b.size > a.size ? b : a);
    }
    const [oldest] = crowd ?? [];
    if (oldest !== undefined) this.leave(oldest);
    return oldest;
  }

  /**
   * Makes a stranger known, unless there is no room. A named peer gets another connection while it has fewer than are
   * free (dynamic threshold of Choudhury and Hahne, 1998): alone it can have half of them, and newcomers find room.
   */
  admit(connection: Connection, { kind, name }: KnownPeer): boolean {
    if (!this.#sourceOf.has(connection)) return this.#known.has(connection);
    const { known, reserved } = this.#limits;
    const free = known + (kind === "reserved" ? reserved : 0) - this.#known.size;
    const own = name === undefined ? 0 : this.#shares.get(name) ?? 0;
    if ((kind === "reserved" ? 0 : own) >= free) return false;
    this.leave(connection);
    this.#known.set(connection, name);
    if (name !== undefined) this.#shares.set(name, own + 1);
    return true;
  }

  isKnown(connection: Connection): boolean {
    return this.#known.has(connection);
  }

  get counts() {
    return { strangers: this.#sourceOf.size, known: this.#known.size };
  }

  leave(connection: Connection): void {
    const name = this.#known.get(connection);
    this.#known.delete(connection);
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

function sourceOf(address: string): string {
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

  /** Starts with no keys. */
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
    // A clock that was set back neither takes tokens away nor stops the refill.
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
