/**
 * HTTP/1.1 over TLS to one server, by undici's `Pool`. Each request is sent once, and its answer is read whole.
 *
 * Neither `node:https` nor `fetch` can do this. If a reused connection ends without an answer, `node:https` of Deno
 * 2.9.6 sends the request again, even a POST. `fetch` trusts the public roots in addition to `caCerts`, and accepts
 * TLS 1.2.
 *
 * @module
 */
import { Buffer } from "node:buffer";
// @ts-types="./undici/pool.d.ts"
import Pool from "undici/lib/dispatcher/pool.js";
import type { TlsIdentity } from "./tls_material.ts";

/** What {@linkcode ClientConnections} needs. */
interface ClientConnectionsOptions extends Partial<TlsIdentity> {
  /** `https://host:port`, with a path prefix if any. The host must be a name in the server's certificate. */
  readonly url: URL;
  /** The oldest accepted version of TLS, by default 1.3. */
  readonly minVersion?: "TLSv1.2" | "TLSv1.3";
  /** The most connections at a time; further requests wait. */
  readonly maxConnections: number;
}

interface ClientRequest {
  readonly method: string;
  /** With its leading slash and its query, and encoded; appended to the prefix. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: Uint8Array;
  /** The largest answer, in bytes. */
  readonly maxBytes: number;
}

/** One whole answer. */
export interface Answer {
  readonly status: number;
  /** By lowercase name; several of one name with commas between. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
}

/** A request under way. */
export interface Exchange {
  /** @throws when the request or its connection was ended, or the answer is malformed or too large */
  readonly answer: Promise<Answer>;
  /** Whether the server may have received a part of the request. */
  readonly isSent: boolean;
}

/** An answer whose end another reader could see elsewhere. */
class MalformedAnswer extends Error {
  override readonly name = "MalformedAnswer";
}

/** A body beyond the limit. */
export class AnswerTooLarge extends Error {
  override readonly name = "AnswerTooLarge";
}

/** Less than the time after which our servers, API servers and balancers close an unused connection. */
const IDLE_MS = 30_000;
const MAX_HEAD_BYTES = 16_384;
// A line break in one of them would begin another header.
const TARGET = /^\/[\x21-\x7e]*$/;
const HEADER_NAME = /^[A-Za-z0-9-]+$/;
const HEADER_VALUE = /^[\x20-\x7e\x80-\xff]*$/;

/** The connections of one client. */
export class ClientConnections {
  #options: ClientConnectionsOptions;
  #pool: Pool;
  /** Also those whose credentials were renewed, until their last request has ended. */
  readonly #open = new Set<Pool>();

  constructor(options: ClientConnectionsOptions) {
    this.#options = options;
    this.#pool = this.#openPool();
  }

  /**
   * Sends a request when a connection is free, unless the signal is aborted before; an abort later closes the
   * connection.
   *
   * @throws {TypeError} when the path or a header could be read as something else
   */
  send({ method, path, headers, body, maxBytes }: ClientRequest, signal: AbortSignal): Exchange {
    const target = this.#options.url.pathname.replace(/(?<!\/)\/+$/, "") + path;
    if (!TARGET.test(target)) throw new TypeError("not a request target");
    for (const [name, value] of Object.entries(headers)) {
      if (!HEADER_NAME.test(name) || !HEADER_VALUE.test(value)) throw new TypeError("not a header");
    }
    const { promise: answer, resolve, reject } = Promise.withResolvers<Answer>();
    const exchange = { answer, isSent: false };
    const pieces: Uint8Array[] = [];
    let length = 0;
    let head: Pick<Answer, "status" | "headers"> | undefined;
    this.#pool.dispatch({ method, path: target, headers, body: body ?? null }, {
      onRequestStart(controller) {
        const end = () => controller.abort(signal.reason);
        if (signal.aborted) return end();
        signal.addEventListener("abort", end, { once: true });
        exchange.isSent = true;
      },
      onResponseStart(controller, status, fields) {
        const flat = Object.entries(fields).map(([name, value]) => [name, [value].flat().join(", ")]);
        head = { status, headers: Object.assign(Object.create(null), Object.fromEntries(flat)) };
        const fault = faultOf(head, maxBytes);
        if (fault !== undefined) controller.abort(fault);
      },
      onResponseData(controller, chunk) {
        length += chunk.length;
        if (length > maxBytes) controller.abort(new AnswerTooLarge());
        else pieces.push(chunk);
      },
      onResponseEnd() {
        const [first = new Uint8Array()] = pieces;
        if (head !== undefined) resolve({ ...head, body: pieces.length > 1 ? Buffer.concat(pieces) : first });
      },
      onResponseError: (_, error) => reject(error),
    });
    return exchange;
  }

  /** Uses other credentials from now on; requests under way end on the connections before. */
  renew(tls: Pick<ClientConnectionsOptions, "cert" | "key" | "ca">): void {
    const before = this.#pool;
    this.#options = { ...this.#options, ...tls };
    this.#pool = this.#openPool();
    before.close().finally(() => this.#open.delete(before));
  }

  /** Closes all connections; requests under way fail. */
  close(): void {
    for (const pool of this.#open) void pool.destroy(new Error("the client was closed"));
  }

  #openPool(): Pool {
    const { url, cert, key, ca, minVersion = "TLSv1.3", maxConnections } = this.#options;
    const pool = new Pool(url.origin, {
      connections: maxConnections,
      pipelining: 1,
      allowH2: false,
      // A resumed session would not check the server's certificate again.
      maxCachedSessions: 0,
      maxHeaderSize: MAX_HEAD_BYTES,
      keepAliveTimeout: IDLE_MS,
      keepAliveMaxTimeout: IDLE_MS,
      // The caller's signal bounds the whole exchange.
      headersTimeout: 0,
      bodyTimeout: 0,
      connect: { cert, key, ca, minVersion, rejectUnauthorized: true },
    });
    this.#open.add(pool);
    return pool;
  }
}

/** undici would also read an answer up to the end of its connection, which anyone on the path can cut short. */
function faultOf(
  { status, headers }: Pick<Answer, "status" | "headers">,
  maxBytes: number,
): Error | undefined {
  const { "content-length": length, "transfer-encoding": coding } = headers;
  if (status < 200 || status > 599) return new MalformedAnswer("the status is not final");
  if (status === 204 || status === 304 || coding?.toLowerCase() === "chunked") return undefined;
  if (coding !== undefined || length === undefined) return new MalformedAnswer("the body's end is unknown");
  return Number(length) > maxBytes ? new AnswerTooLarge() : undefined;
}
