/**
 * A client for the JSON services of this system: mutual TLS 1.3, bounded in time and size, no redirects.
 *
 * ```ts ignore
 * import { JsonClient } from "@gateway/shared/http";
 *
 * const tls = { cert, key, ca };
 * using client = new JsonClient({ what: "the signer", baseUrl: "https://127.0.0.1:9443", ...tls, clock });
 * const { status, body } = await client.request({ method: "GET", path: "/v1/hosts" });
 * ```
 *
 * @module
 */
import { Buffer } from "node:buffer";
import { type Clock, within } from "../clock.ts";
import { AppError } from "../errors.ts";
import { parseJson, stringifyJson } from "../json.ts";
import { askingService } from "../service/request_context.ts";
import { type Answer, AnswerTooLarge, ClientConnections, type Exchange } from "./client_connections.ts";
import { checkTlsIdentity } from "./tls_material.ts";

/** What {@linkcode JsonClient} needs. */
export interface JsonClientOptions {
  /** How messages call the other side, by default `the service`. Addresses stand in the causes alone, for the log. */
  readonly what?: string;
  /** `https://host:port`, with a path prefix if any. The host must be a name in the server's certificate. */
  readonly baseUrl: string;
  /** The client's certificate chain, PEM. */
  readonly cert: string;
  /** Its private key, PEM. */
  readonly key: string;
  /** The CAs to trust, and no others, PEM. */
  readonly ca: string;
  readonly clock: Clock;
  /** For a whole exchange, in milliseconds; default 10,000. */
  readonly timeoutMs?: number;
  /** The largest answer, in bytes; default 1 MiB. */
  readonly maxResponseBytes?: number;
  /** Connections at a time; default 64. */
  readonly maxConnections?: number;
}

/** One request. */
export interface JsonClientRequest {
  /** The HTTP method. */
  readonly method: "GET" | "POST" | "DELETE";
  /** With its leading slash, and encoded. */
  readonly path: string;
  /** Sent as JSON; absent means no body. */
  readonly body?: unknown;
  /** Beside those of the client; a name or value that would begin another header is refused. */
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
  /** For this exchange instead of the client's, in milliseconds. */
  readonly timeoutMs?: number;
}

/** One answer, whatever its status. */
export interface JsonClientResponse {
  /** The HTTP status. */
  readonly status: number;
  /** By lowercase name. */
  readonly headers: Readonly<Record<string, string | undefined>>;
  readonly text: string;
  /** The parsed text when the answer says that it is JSON, otherwise `undefined`. */
  readonly body: unknown;
}

/** There is no answer, and the other side certainly has not got the request. */
export class UnsentError extends AppError {}

const JSON_TYPE = /^application\/(?:[\w.-]+\+)?json\s*(?:;|$)/i;

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Connections to one service, kept open between requests. A request is sent once, whatever becomes of it. */
export class JsonClient implements Disposable {
  readonly #what: string;
  readonly #authority: string;
  readonly #timeoutMs: number;
  readonly #maxBytes: number;
  readonly #clock: Clock;
  readonly #connections: ClientConnections;

  /**
   * Connects with the first request.
   *
   * @throws {AppError} `invalid_config` when the URL is not `https:`, or certificate, key or CA cannot be used
   */
  constructor(options: JsonClientOptions) {
    const url = URL.parse(options.baseUrl);
    if (url?.protocol !== "https:") {
      throw new AppError(
        "invalid_config",
        `Cannot use URL ${JSON.stringify(options.baseUrl)}: expected https://…`,
      );
    }
    checkTlsIdentity(options);
    this.#what = options.what ?? "the service";
    this.#authority = url.host;
    this.#timeoutMs = options.timeoutMs ?? 10_000;
    this.#clock = options.clock;
    this.#maxBytes = options.maxResponseBytes ?? 1 << 20;
    this.#connections = new ClientConnections({
      url,
      cert: options.cert,
      key: options.key,
      ca: options.ca,
      maxConnections: options.maxConnections ?? 64,
    });
  }

  /**
   * Sends a request and reads the whole answer. Error statuses are answers too; redirects are not followed.
   *
   * @throws {AppError} `canceled` when the request's signal is aborted, `upstream_failure` when there is no
   * answer in time, or one that is too large or not the JSON that it claims to be
   */
  request(request: JsonClientRequest): Promise<JsonClientResponse> {
    return askingService(request.method, (headers) => this.#exchange(request, headers));
  }

  async #exchange(
    request: JsonClientRequest,
    passedOn: Readonly<Record<string, string>>,
  ): Promise<JsonClientResponse> {
    const { signal, timeoutMs: ms = this.#timeoutMs } = request;
    const late = () => this.#failure(`Timed out contacting ${this.#what}`);
    const aborted = () => new AppError("canceled", `Contacting ${this.#what} was canceled`);
    let exchange: Exchange | undefined;
    try {
      const answer = await within({ clock: this.#clock, ms, signal, late, aborted }, (ended) => {
        exchange = this.#connections.send(this.#encode(request, passedOn), ended);
        return exchange.answer;
      });
      return this.#decode(answer);
    } catch (cause) {
      if (exchange?.isSent === false && !(cause instanceof AppError && cause.code === "canceled")) {
        const message = cause instanceof AppError ? cause.message : `Failed contacting ${this.#what}`;
        throw new UnsentError("upstream_failure", message, {
          cause: cause instanceof AppError ? cause : this.#asking(cause),
        });
      }
      if (cause instanceof AppError) throw cause;
      if (cause instanceof AnswerTooLarge) {
        throw this.#failure(`The answer of ${this.#what} is larger than ${this.#maxBytes} bytes`, cause);
      }
      throw this.#failure(`Failed contacting ${this.#what}`, cause);
    }
  }

  /**
   * Shows other credentials, and believes other CAs, from the next connection on.
   *
   * @throws {AppError} `invalid_config` when they can't be used; those before stay in force
   */
  renew({ cert, key, ca }: Pick<JsonClientOptions, "cert" | "key" | "ca">): void {
    checkTlsIdentity({ cert, key, ca });
    this.#connections.renew({ cert, key, ca });
  }

  /** Closes all connections; requests under way fail. */
  close(): void {
    this.#connections.close();
  }

  /** The same as {@linkcode JsonClient.close}. */
  [Symbol.dispose](): void {
    this.close();
  }

  #encode(
    { method, path, body, headers }: JsonClientRequest,
    passedOn: Readonly<Record<string, string>>,
  ): Parameters<ClientConnections["send"]>[0] {
    const common = { method, path, maxBytes: this.#maxBytes };
    const fields = { accept: "application/json", ...passedOn, ...headers };
    if (body === undefined) return { ...common, headers: fields };
    const json = { ...fields, "content-type": "application/json" };
    return { ...common, headers: json, body: Buffer.from(stringifyJson(body)) };
  }

  #decode({ status, headers, body }: Answer): JsonClientResponse {
    const text = decoder.decode(body);
    const isJson = JSON_TYPE.test(headers["content-type"] ?? "");
    return { status, headers, text, body: isJson ? this.#parse(text) : undefined };
  }

  #parse(text: string): unknown {
    try {
      return parseJson(text);
    } catch (cause) {
      throw this.#failure(`The answer of ${this.#what} is not valid JSON`, cause);
    }
  }

  #failure(message: string, cause?: unknown): AppError {
    return new AppError("upstream_failure", message, { cause: this.#asking(cause) });
  }

  /** Which of several services it was, for the log: not each cause says so. */
  #asking(cause: unknown): AppError {
    return new AppError("upstream_failure", `asking ${this.#authority}`, { cause });
  }
}
