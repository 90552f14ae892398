/**
 * Requests to the API server of one cluster: with a bearer token, over TLS that trusts the cluster's own CAs and no
 * others, bounded in time and size, never redirected and never sent twice.
 *
 * ```ts ignore
 * import { ApiServer } from "@gateway/shared/kubernetes";
 *
 * using server = new ApiServer({ url: "https://10.0.0.5:6443", ca, clock });
 * const path = "/api/v1/namespaces/prod/pods/web-1";
 * const outcome = await server.request({ method: "GET", path, token, timeoutMs: 30_000, maxBytes: 4 << 20 });
 * if (outcome.kind === "answered") console.log(outcome.status, outcome.text);
 * ```
 *
 * @module
 */
import { concatBytes } from "../text.ts";
import { type Clock, within } from "../clock.ts";
import { AppError } from "../errors.ts";
import { AnswerTooLarge } from "../http/answer_parser.ts";
import { ClientConnections } from "../http/client_connections.ts";
import { checkCaCertificates } from "../http/tls_material.ts";

/** What an {@linkcode ApiServer} needs. */
interface ApiServerOptions {
  /** `https://host:port`, with a path prefix if any. */
  readonly url: string;
  /** The cluster's CAs, PEM; nothing else is trusted. */
  readonly ca: string;
  readonly clock: Clock;
  /** Connections at a time; default 16. */
  readonly maxConnections?: number;
}

/** One request. */
export interface ApiRequest {
  /** The HTTP method. */
  readonly method: "GET" | "POST" | "PATCH" | "DELETE";
  /** With its leading slash and its query, and encoded. */
  readonly path: string;
  /** The bearer token: a secret, for this request alone. */
  readonly token: string;
  readonly body?: { readonly type: string; readonly bytes: Uint8Array };
  /** What is taken for an answer; default `application/json`. */
  readonly accept?: string;
  /** For the whole exchange, in milliseconds. */
  readonly timeoutMs: number;
  /** The largest answer, in bytes; one that is exactly so long is taken. */
  readonly maxBytes: number;
  /** Ends the exchange, and closes its connection. */
  readonly signal?: AbortSignal | undefined;
}

/** What became of a request. Nothing of it holds an address. */
export type ApiOutcome =
  | {
    readonly kind: "answered";
    readonly status: number;
    /** By lowercase name. */
    readonly headers: Readonly<Record<string, string>>;
    /** What is not UTF-8 is U+FFFD, and the token of the request is `[token]`. */
    readonly text: string;
  }
  | { readonly kind: "too_large" }
  | { readonly kind: "timed_out" }
  | { readonly kind: "canceled" }
  /** Its certificate is not one of the cluster's CAs, or not of its address. */
  | { readonly kind: "untrusted"; readonly cause: unknown }
  /** No connection, or one that ended before there was a whole answer that can be read. */
  | { readonly kind: "unreachable"; readonly cause: unknown };

/** Less than what API servers and the balancers before them leave an unused connection open. */
const IDLE_MS = 30_000;
// Checked before they are put together: a line break in one of them would begin another header.
const TARGET = /^\/[\x21-\x7e]*$/;
const HEADER_VALUE = /^[\x20-\x7e]*$/;
const TOKEN = /^[\x21-\x7e]+$/;

/** Shorter ones guard nothing, and may be words of the answer. */
const MIN_TOKEN_LENGTH = 16;

const TIMED_OUT = new Error("timed out");
const CANCELED = new Error("canceled");

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** The connections to one API server. Its version of TLS is 1.2 at least: balancers before it know no newer one. */
export class ApiServer implements Disposable {
  readonly #prefix: string;
  readonly #authority: string;
  readonly #clock: Clock;
  readonly #connections: ClientConnections;

  /**
   * Connects with the first request.
   *
   * @throws {AppError} `invalid_config` when the URL is not `https:`, or a CA can't be used
   */
  constructor({ url, ca, clock, maxConnections = 16 }: ApiServerOptions) {
    const parsed = URL.parse(url);
    if (parsed?.protocol !== "https:" || parsed.hostname === "") {
      throw new AppError("invalid_config", "Cannot use the API server's URL: expected https://…");
    }
    checkCaCertificates(ca);
    this.#prefix = parsed.pathname.replace(/(?<!\/)\/+$/, "");
    this.#authority = parsed.host;
    this.#clock = clock;
    this.#connections = new ClientConnections({
      host: parsed.hostname.replace(/^\[|\]$/g, ""),
      port: parsed.port === "" ? 443 : Number(parsed.port),
      ca,
      minVersion: "TLSv1.2",
      maxConnections,
      maxBytes: 0,
      idleMs: IDLE_MS,
    });
  }

  /** Sends a request and reads the whole answer. Error statuses and redirects are answers too. */
  async request(request: ApiRequest): Promise<ApiOutcome> {
    const bytes = this.#encode(request);
    const { signal, timeoutMs: ms, maxBytes } = request;
    if (signal?.aborted) return { kind: "canceled" };
    const exchange = this.#connections.send(bytes, { maxBytes });
    const end = (reason: Error) => {
      exchange.end(reason);
      return reason;
    };
    const bound = {
      clock: this.#clock,
      ms,
      signal,
      late: () => end(TIMED_OUT),
      aborted: () => end(CANCELED),
    };
    try {
      const { status, headers, body } = await within(bound, exchange.answer);
      return { kind: "answered", status, headers, text: withoutToken(decoder.decode(body), request.token) };
    } catch (cause) {
      if (cause === TIMED_OUT) return { kind: "timed_out" };
      if (cause === CANCELED) return { kind: "canceled" };
      if (cause instanceof AnswerTooLarge) return { kind: "too_large" };
      return { kind: isAboutCertificate(cause) ? "untrusted" : "unreachable", cause };
    }
  }

  /** Closes all connections; requests under way fail. */
  close(): void {
    this.#connections.close();
  }

  /** The same as {@linkcode ApiServer.close}. */
  [Symbol.dispose](): void {
    this.close();
  }

  #encode({ method, path, token, body, accept = "application/json" }: ApiRequest): Uint8Array {
    const target = this.#prefix + path;
    if (!TARGET.test(target)) throw new TypeError("not a request target");
    if (!TOKEN.test(token)) throw new TypeError("not a bearer token");
    if (!HEADER_VALUE.test(accept)) throw new TypeError("not a header");
    const head = `${method} ${target} HTTP/1.1\r\nhost: ${this.#authority}\r\naccept: ${accept}\r\n` +
      `authorization: Bearer ${token}\r\n`;
    // All of it is ASCII; Buffer's own encoder for that takes ten times as long.
    if (body === undefined) return encoder.encode(`${head}\r\n`);
    if (!HEADER_VALUE.test(body.type)) throw new TypeError("not a header");
    return concatBytes([
      encoder.encode(`${head}content-type: ${body.type}\r\ncontent-length: ${body.bytes.length}\r\n\r\n`),
      body.bytes,
    ]);
  }
}

/** Answers go to agents, errors and logs: also one of a balancer that repeats what it was sent. */
function withoutToken(text: string, token: string): string {
  return token.length < MIN_TOKEN_LENGTH ? text : text.replaceAll(token, "[token]");
}

/** How the runtime's TLS says that it does not believe the other side. */
function isAboutCertificate(cause: unknown): boolean {
  return cause instanceof Error && /certificate/i.test(cause.message);
}
