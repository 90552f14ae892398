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
import { type Clock, within } from "../clock.ts";
import { AppError } from "../errors.ts";
import { AnswerTooLarge, ClientConnections } from "../http/client.ts";
import { checkCaCertificates } from "../http/tls_files.ts";

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

const TOKEN = /^[\x21-\x7e]+$/;

/** Shorter ones guard nothing, and may be words of the answer. */
const MIN_TOKEN_LENGTH = 16;

const TIMED_OUT = new Error("timed out");
const CANCELED = new Error("canceled");

const decoder = new TextDecoder();

/** The connections to one API server. Its version of TLS is 1.2 at least: balancers before it know no newer one. */
export class ApiServer implements Disposable {
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
    this.#clock = clock;
    this.#connections = new ClientConnections({ url: parsed, ca, minVersion: "TLSv1.2", maxConnections });
  }

  /** Sends a request and reads the whole answer. Error statuses and redirects are answers too. */
  async request(request: ApiRequest): Promise<ApiOutcome> {
    const { method, path, token, body, accept = "application/json", signal, timeoutMs: ms, maxBytes } =
      request;
    if (!TOKEN.test(token)) throw new TypeError("not a bearer token");
    const headers = {
      accept,
      authorization: `Bearer ${token}`,
      ...(body !== undefined && { "content-type": body.type }),
    };
    const sent = { method, path, headers, maxBytes, ...(body !== undefined && { body: body.bytes }) };
    const bound = { clock: this.#clock, ms, signal, late: () => TIMED_OUT, aborted: () => CANCELED };
    try {
      const answer = await within(bound, (ended) => this.#connections.send(sent, ended).answer);
      const text = withoutToken(decoder.decode(answer.body), token);
      return { kind: "answered", status: answer.status, headers: answer.headers, text };
    } catch (cause) {
      if (cause instanceof TypeError) throw cause;
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
}

/** Answers go to agents, errors and logs: also one of a balancer that repeats what it was sent. */
function withoutToken(text: string, token: string): string {
  return token.length < MIN_TOKEN_LENGTH ? text : text.replaceAll(token, "[token]");
}

/** How the runtime's TLS says that it does not believe the other side. */
function isAboutCertificate(cause: unknown): boolean {
  return cause instanceof Error && /certificate/i.test(cause.message);
}
