/**
 * Clients for the services of this system and for API servers: HTTP/1.1 over TLS, trusting only the given CAs, bounded
 * in time and size. They follow no redirects and send each request once.
 *
 * Neither `node:https` nor `fetch` can do this. If a reused connection ends without an answer, `node:https` of Deno
 * 2.9.6 sends the request again, even a POST. `fetch` trusts the public roots in addition to `caCerts`, and accepts
 * TLS 1.2.
 *
 * @module
 */
import { Buffer } from "node:buffer";
import { type Clock, within } from "../clock.ts";
import { AppError, configError } from "../errors.ts";
import { parseJson, stringifyJson } from "../json.ts";
import { joinBytes } from "../text.ts";
import { askingService } from "../service/mod.ts";
import { checkTlsIdentity, type TlsMaterial } from "./tls_files.ts";
import type { Pool } from "./undici/pool.ts";

interface ClientConnectionsOptions extends Partial<TlsMaterial> {
  /** `https://host:port`, with an optional path prefix. The server's certificate must contain the host. */
  readonly url: URL;
  /** The oldest accepted version of TLS, by default 1.3. */
  readonly minVersion?: "TLSv1.2" | "TLSv1.3";
  readonly maxConnections: number;
}

interface ClientRequest {
  readonly method: string;
  /** With leading slash and query, encoded; appended to the prefix. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: Uint8Array;
  readonly maxBytes: number;
}

interface Answer {
  readonly status: number;
  /** By lowercase name. Values of one name are joined with commas. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
}

/** An answer whose end could be ambiguous for another reader. */
class MalformedAnswer extends Error {
  override readonly name = "MalformedAnswer";
}

/** The answer exceeds its limit. */
export class AnswerTooLarge extends Error {
  override readonly name = "AnswerTooLarge";
}

/** How long an idle connection is kept. Servers and load balancers close idle connections later. */
const IDLE_MS = 30_000;
const MAX_HEAD_BYTES = 16_384;
// Reject a line break in these texts, because it would start another header.
const TARGET = /^\/[\x21-\x7e]*$/;
const HEADER_NAME = /^[A-Za-z0-9-]+$/;
const HEADER_VALUE = /^[\x20-\x7e\x80-\xff]*$/;

/** Loaded with the first connection: it reads environment variables, which programs that only read configs may not do. */
const loadPool = async () => (await import("./undici/pool.ts")).Pool;

/** The connections to one server. */
export class ClientConnections {
  #options: ClientConnectionsOptions;
  #pool: Promise<Pool>;
  /** All open pools, including pools with previous credentials until their last request ends. */
  readonly #open = new Set<Promise<Pool>>();

  constructor(options: ClientConnectionsOptions) {
    this.#options = options;
    this.#pool = this.#openPool();
  }

  /**
   * Sends a request when a connection is free. An aborted signal prevents that, or closes the connection.
   *
   * @returns `isSent` is true as soon as the server may have received a part of the request
   * @throws {TypeError} if the path or a header could be read as something else
   */
  send({ method, path, headers, body, maxBytes }: ClientRequest, signal: AbortSignal) {
    const target = this.#options.url.pathname.replace(/(?<!\/)\/+$/, "") + path;
    if (!TARGET.test(target)) throw new TypeError("not a request target");
    for (const [name, value] of Object.entries(headers)) {
      if (!HEADER_NAME.test(name) || !HEADER_VALUE.test(value)) throw new TypeError("not a header");
    }
    const { promise: answer, resolve, reject } = Promise.withResolvers<Answer>();
    const exchange = { answer, isSent: false };
    const pieces: Uint8Array[] = [];
    let length = 0;
    let head: Omit<Answer, "body"> | undefined;
    const handler: Parameters<Pool["dispatch"]>[1] = {
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
        if (head !== undefined) resolve({ ...head, body: joinBytes(pieces) });
      },
      onResponseError: (_, error) => reject(error),
    };
    this.#pool.then((pool) => pool.dispatch({ method, path: target, headers, body: body ?? null }, handler))
      .catch(reject);
    return exchange;
  }

  /** Uses new credentials for new requests. */
  renew(tls: TlsMaterial): void {
    const before = this.#pool;
    this.#options = { ...this.#options, ...tls };
    this.#pool = this.#openPool();
    before.then((pool) => pool.close()).finally(() => this.#open.delete(before));
  }

  close(): void {
    for (const opened of this.#open) {
      void opened.then((pool) => pool.destroy(new Error("the client was closed")));
    }
  }

  #openPool(): Promise<Pool> {
    const { url, cert, key, ca, minVersion = "TLSv1.3", maxConnections } = this.#options;
    const pool = loadPool().then((Pool) =>
      new Pool(url.origin, {
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
      })
    );
    // Each request reports this failure.
    pool.catch(() => {});
    this.#open.add(pool);
    return pool;
  }
}

/**
 * Finds the fault of an answer. undici accepts an answer that ends with its connection, which an attacker on
 * the network could truncate.
 */
function faultOf({ status, headers }: Omit<Answer, "body">, maxBytes: number): Error | undefined {
  const { "content-length": length, "transfer-encoding": coding } = headers;
  if (status < 200 || status > 599) return new MalformedAnswer("the status is not final");
  if (status === 204 || status === 304 || coding?.toLowerCase() === "chunked") return undefined;
  if (coding !== undefined || length === undefined) return new MalformedAnswer("the body's end is unknown");
  return Number(length) > maxBytes ? new AnswerTooLarge() : undefined;
}

/** The options of a client: PEM texts, limits, and the name of the service in messages. */
export interface JsonClientOptions extends TlsMaterial {
  /** By default `the service`. Addresses appear only in error causes, which go to the log. */
  readonly what?: string;
  readonly baseUrl: string;
  readonly clock: Clock;
  /** The time limit for a whole exchange. */
  readonly timeoutMs?: number;
  readonly maxResponseBytes?: number;
  readonly maxConnections?: number;
}

/** A request. Its body is sent as JSON. */
export interface JsonClientRequest {
  readonly method: "GET" | "POST" | "DELETE";
  /** With leading slash, encoded. */
  readonly path: string;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
  readonly timeoutMs?: number;
}

/** An answer with any status. `body` is `undefined` unless the answer has the content type of JSON. */
export interface JsonClientResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | undefined>>;
  readonly text: string;
  readonly body: unknown;
}

/** The request certainly did not reach the server. */
export class UnsentError extends AppError {}

const JSON_TYPE = /^application\/(?:[\w.-]+\+)?json\s*(?:;|$)/i;
const DECODER = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** A client for a JSON service with mutual TLS 1.3. It keeps connections open between requests. */
export class JsonClient implements Disposable {
  readonly #options: Required<JsonClientOptions>;
  readonly #connections: ClientConnections;

  /**
   * Connects with the first request.
   *
   * @throws {AppError} `invalid_config` if the URL is not `https:`, or certificate, key or CA cannot be used
   */
  constructor(options: JsonClientOptions) {
    const { baseUrl, cert, key, ca, maxConnections = 64 } = options;
    const url = URL.parse(baseUrl);
    if (url?.protocol !== "https:") {
      throw configError(`Cannot use URL ${JSON.stringify(baseUrl)}: expected https://…`);
    }
    checkTlsIdentity(options);
    const defaults = { what: "the service", timeoutMs: 10_000, maxResponseBytes: 1 << 20, maxConnections };
    this.#options = { ...defaults, ...options };
    this.#connections = new ClientConnections({ url, cert, key, ca, maxConnections });
  }

  /**
   * Sends a request and reads the whole answer. Error statuses and redirects are answers, too.
   *
   * @throws {AppError} `canceled` if the request's signal is aborted, `upstream_failure` if there is no answer in time,
   * or an invalid one
   */
  request(request: JsonClientRequest): Promise<JsonClientResponse> {
    return askingService(request.method, (headers) => this.#exchange(request, headers));
  }

  async #exchange(
    { method, path, body, headers, signal, timeoutMs: ms = this.#options.timeoutMs }: JsonClientRequest,
    passedOn: Readonly<Record<string, string>>,
  ): Promise<JsonClientResponse> {
    const { what, clock, maxResponseBytes: maxBytes } = this.#options;
    const late = () => this.#failure(`Timed out contacting ${what}`);
    const aborted = () => new AppError("canceled", `Contacting ${what} was canceled`);
    let exchange: ReturnType<ClientConnections["send"]> | undefined;
    try {
      const answer = await within({ clock, ms, signal, late, aborted }, (ended) => {
        const request = {
          method,
          path,
          maxBytes,
          headers: {
            accept: "application/json",
            ...passedOn,
            ...headers,
            ...(body !== undefined && { "content-type": "application/json" }),
          },
          ...(body !== undefined && { body: Buffer.from(stringifyJson(body)) }),
        };
        exchange = this.#connections.send(request, ended);
        return exchange.answer;
      });
      return this.#decode(answer);
    } catch (cause) {
      if (exchange?.isSent === false && !(cause instanceof AppError && cause.code === "canceled")) {
        const message = cause instanceof AppError ? cause.message : `Failed contacting ${what}`;
        const unsent = cause instanceof AppError ? cause : this.#asking(cause);
        throw new UnsentError("upstream_failure", message, { cause: unsent });
      }
      if (cause instanceof AppError) throw cause;
      const message = cause instanceof AnswerTooLarge
        ? `The answer of ${what} is larger than ${maxBytes} bytes`
        : `Failed contacting ${what}`;
      throw this.#failure(message, cause);
    }
  }

  #decode({ status, headers, body }: Answer): JsonClientResponse {
    const text = DECODER.decode(body);
    if (!JSON_TYPE.test(headers["content-type"] ?? "")) return { status, headers, text, body: undefined };
    try {
      return { status, headers, text, body: parseJson(text) };
    } catch (cause) {
      throw this.#failure(`The answer of ${this.#options.what} is not valid JSON`, cause);
    }
  }

  /**
   * Uses new credentials and CAs for new connections.
   *
   * @throws {AppError} `invalid_config` if they cannot be used: the previous ones stay in use
   */
  renew({ cert, key, ca }: TlsMaterial): void {
    checkTlsIdentity({ cert, key, ca });
    this.#connections.renew({ cert, key, ca });
  }

  /** Closes all connections. Open requests fail. */
  close(): void {
    this.#connections.close();
  }

  /** The same as {@linkcode JsonClient.close}. */
  [Symbol.dispose](): void {
    this.close();
  }

  #failure(message: string, cause?: unknown): AppError {
    return new AppError("upstream_failure", message, { cause: this.#asking(cause) });
  }

  /** Adds the server's name to an error, for the log. */
  #asking(cause: unknown): AppError {
    return new AppError("upstream_failure", `asking ${URL.parse(this.#options.baseUrl)?.host}`, { cause });
  }
}
