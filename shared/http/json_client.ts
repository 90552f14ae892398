/**
 * A client for the JSON services of this system: mutual TLS 1.3, bounded in time and size, no redirects.
 *
 * ```ts ignore
 * import { JsonClient } from "@gateway/shared/http/json_client";
 *
 * using client = new JsonClient({ what: "the signer", baseUrl: "https://127.0.0.1:9443", cert, key, ca });
 * const { status, body } = await client.request({ method: "GET", path: "/v1/hosts" });
 * ```
 *
 * @module
 */
import { Agent, request as sendRequest } from "node:https";
import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import { AppError } from "../errors.ts";
import { checkTlsIdentity } from "./tls_identity.ts";
import { parseJson, stringifyJson } from "../json.ts";

/** What {@linkcode JsonClient} needs. */
export interface JsonClientOptions {
  /** How messages call the other side, by default `the service`. Addresses never stand in a message. */
  readonly what?: string;
  /** `https://host:port`, with a path prefix if any. The host must be a name in the server's certificate. */
  readonly baseUrl: string;
  /** The client's certificate chain, PEM. */
  readonly cert: string;
  /** Its private key, PEM. */
  readonly key: string;
  /** The CAs to trust, and no others, PEM. */
  readonly ca: string;
  /** For a whole exchange, in milliseconds; default 10,000. */
  readonly timeoutMs?: number;
  /** The largest answer, in bytes; default 1 MiB. */
  readonly maxResponseBytes?: number;
  /** Connections at a time; default 64. */
  readonly maxConnections?: number;
}

/** One request. */
export interface JsonClientRequest {
  readonly method: "GET" | "POST" | "DELETE";
  /** With its leading slash, and encoded. */
  readonly path: string;
  /** Sent as JSON; absent is no body. */
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  /** Ends the exchange. */
  readonly signal?: AbortSignal;
  /** For this exchange instead of the client's, in milliseconds. */
  readonly timeoutMs?: number;
}

/** One answer, whatever its status. */
export interface JsonClientResponse {
  readonly status: number;
  readonly headers: Readonly<IncomingHttpHeaders>;
  readonly text: string;
  /** The parsed text when the answer says that it is JSON, otherwise `undefined`. */
  readonly body: unknown;
}

/** Connections to one service, kept open between requests. */
export class JsonClient implements Disposable {
  readonly #options: JsonClientOptions;
  readonly #what: string;
  readonly #base: string;
  readonly #agent: Agent;

  /** @throws {AppError} `invalid_config` when the URL is not `https:`, or certificate, key or CA cannot be used */
  constructor(options: JsonClientOptions) {
    if (!URL.canParse(options.baseUrl) || new URL(options.baseUrl).protocol !== "https:") {
      throw new AppError(
        "invalid_config",
        `Cannot use URL ${JSON.stringify(options.baseUrl)}: expected https://…`,
      );
    }
    checkTlsIdentity(options);
    this.#options = options;
    this.#what = options.what ?? "the service";
    this.#base = options.baseUrl.replace(/\/+$/, "");
    this.#agent = new Agent({
      cert: options.cert,
      key: options.key,
      ca: options.ca,
      minVersion: "TLSv1.3",
      rejectUnauthorized: true,
      keepAlive: true,
      maxSockets: options.maxConnections ?? 64,
      maxFreeSockets: 16,
      // Every connection is a full handshake: a resumed one would not check the server's certificate again.
      maxCachedSessions: 0,
    });
  }

  /**
   * Sends a request and reads the whole answer. Error statuses are answers too; redirects are not followed.
   *
   * @throws {AppError} `canceled` when the request's signal is aborted, `upstream_failure` when there is no
   * answer in time, or one that is too large or not the JSON that it claims to be
   */
  async request(request: JsonClientRequest): Promise<JsonClientResponse> {
    const timeout = AbortSignal.timeout(request.timeoutMs ?? this.#options.timeoutMs ?? 10_000);
    const signal = request.signal === undefined ? timeout : AbortSignal.any([request.signal, timeout]);
    try {
      return await this.#exchange(request, signal);
    } catch (cause) {
      if (request.signal?.aborted) {
        throw new AppError("canceled", `Contacting ${this.#what} was canceled`, { cause });
      }
      if (timeout.aborted) {
        throw new AppError("upstream_failure", `Timed out contacting ${this.#what}`, { cause });
      }
      if (cause instanceof AppError) throw cause;
      throw new AppError("upstream_failure", `Failed contacting ${this.#what}`, { cause });
    }
  }

  /** Closes all connections; requests under way fail. */
  close(): void {
    this.#agent.destroy();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  async #exchange(request: JsonClientRequest, signal: AbortSignal): Promise<JsonClientResponse> {
    const message = await this.#send(request, signal);
    const text = await this.#readText(message);
    const isJson = /^application\/(?:[\w.-]+\+)?json\s*(?:;|$)/i.test(message.headers["content-type"] ?? "");
    return {
      status: message.statusCode ?? 0,
      headers: message.headers,
      text,
      body: isJson ? this.#parse(text) : undefined,
    };
  }

  #send({ method, path, body, headers }: JsonClientRequest, signal: AbortSignal): Promise<IncomingMessage> {
    const text = body === undefined ? undefined : stringifyJson(body);
    return new Promise((resolve, reject) => {
      const outgoing = sendRequest(this.#base + path, {
        agent: this.#agent,
        method,
        signal,
        headers: {
          accept: "application/json",
          // Named for every method: node:http frames the body of a DELETE in no way of its own.
          ...(text === undefined ? {} : {
            "content-type": "application/json",
            "content-length": new TextEncoder().encode(text).length,
          }),
          ...headers,
        },
      });
      outgoing.on("response", resolve);
      outgoing.on("error", reject);
      outgoing.end(text);
    });
  }

  async #readText(message: IncomingMessage): Promise<string> {
    const maxBytes = this.#options.maxResponseBytes ?? 1 << 20;
    const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
    let text = "";
    let length = 0;
    for await (const chunk of message) {
      length += chunk.length;
      if (length > maxBytes) {
        message.destroy();
        throw new AppError(
          "upstream_failure",
          `The answer of ${this.#what} is larger than ${maxBytes} bytes`,
        );
      }
      text += decoder.decode(chunk, { stream: true });
    }
    if (!message.complete) throw new AppError("upstream_failure", `The answer of ${this.#what} broke off`);
    return text + decoder.decode();
  }

  #parse(text: string): unknown {
    try {
      return parseJson(text);
    } catch (cause) {
      throw new AppError("upstream_failure", `The answer of ${this.#what} is not valid JSON`, { cause });
    }
  }
}
