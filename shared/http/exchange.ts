/**
 * One request, one answer, on connections whose peer is known.
 *
 * @module
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import { TLSSocket } from "node:tls";
import { AppError } from "../errors.ts";
import { stringifyJson } from "../json.ts";
import type { CallerCn } from "./caller.ts";
import { toRequest } from "./node_request.ts";
import { sendResponse } from "./node_response.ts";
import { type PeerCertificate, PeerCertificates } from "./peer_certificate.ts";
import { describeProblem, problemResponse, STATUS } from "./problem.ts";

/** Who sent a request. */
export interface Peer {
  /** The verified CN of the client certificate. */
  readonly caller: CallerCn;
}

/** Answers a request. What it throws becomes a problem response. */
export type PeerHandler = (request: Request, peer: Peer) => Response | Promise<Response>;

/** What {@linkcode Exchanges} needs. */
export interface ExchangeOptions {
  readonly handler: PeerHandler;
  /** Told of every fault answered with status 500 or above; the answer carries the same request id. */
  readonly onError: (error: unknown, requestId: string) => void;
}

/** Turns requests into answers; one for each listener. */
export class Exchanges {
  readonly #options: ExchangeOptions;
  readonly #certificates = new PeerCertificates();
  readonly #peers = new WeakMap<Duplex, PeerCertificate | "nobody">();
  readonly #lastAnswers = new WeakMap<Duplex, ServerResponse>();

  constructor(options: ExchangeOptions) {
    this.#options = options;
  }

  /** To be told of every connection whose TLS handshake is complete, before its first request. */
  begin(socket: TLSSocket): void {
    this.#peers.set(socket, this.#certificates.identify(socket) ?? "nobody");
  }

  async answer(message: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    this.#lastAnswers.set(message.socket, outgoing);
    const gone = lazyAbort();
    outgoing.on("close", () => {
      if (!outgoing.writableFinished) gone.abort();
    });
    outgoing.on("error", () => {});
    try {
      await sendResponse(await this.#respond(message, gone.signal), outgoing);
    } catch (error) {
      if (!outgoing.destroyed) this.#options.onError(error, crypto.randomUUID());
      outgoing.destroy();
    }
  }

  /** Answers what is no HTTP request, or did not become one in time, and closes the connection. */
  refuse(error: Error, socket: Duplex): void {
    const last = this.#lastAnswers.get(socket);
    const isInsideAnswer = last !== undefined && last.headersSent && !last.writableFinished;
    if (!this.#peers.has(socket) || !socket.writable || isInsideAnswer) {
      socket.destroy();
      return;
    }
    socket.end(formatRefusal(this.#refusalOf(error, socket)), () => socket.destroy());
  }

  #refusalOf(error: Error, socket: Duplex): unknown {
    try {
      this.#identify(socket);
    } catch (unauthenticated) {
      return unauthenticated;
    }
    const isTimeout = "code" in error && error.code === "ERR_HTTP_REQUEST_TIMEOUT";
    return isTimeout
      ? new AppError("timeout", "The request did not arrive in time", { cause: error })
      : new AppError("invalid_request", "The request is not well-formed HTTP", { cause: error });
  }

  async #respond(message: IncomingMessage, signal: () => AbortSignal): Promise<Response> {
    try {
      const peer = this.#identify(message.socket);
      return await this.#options.handler(toRequest(message, signal), peer);
    } catch (error) {
      const requestId = crypto.randomUUID();
      const response = problemResponse(error, { requestId });
      if (response.status >= STATUS.internal) this.#options.onError(error, requestId);
      return response;
    }
  }

  #identify(socket: Duplex): Peer {
    const peer = this.#peers.get(socket) ?? "nobody";
    const isAuthorized = socket instanceof TLSSocket && socket.authorized === true;
    if (!isAuthorized || peer === "nobody" || peer.validUntil < Date.now()) {
      throw new AppError("unauthenticated", "A valid client certificate with one common name is required");
    }
    return { caller: peer.caller };
  }
}

function formatRefusal(error: unknown): string {
  const problem = describeProblem(error);
  const body = `${stringifyJson(problem)}\n`;
  return `HTTP/1.1 ${problem.status} ${problem.title}\r\nContent-Type: application/problem+json\r\n` +
    `Content-Length: ${new TextEncoder().encode(body).length}\r\nConnection: close\r\n\r\n${body}`;
}

/** Few handlers ask for the signal, and making one for each request is not free. */
function lazyAbort(): { readonly signal: () => AbortSignal; readonly abort: () => void } {
  let controller: AbortController | undefined;
  const get = () => controller ??= new AbortController();
  return {
    signal: () => get().signal,
    abort: () => get().abort(new AppError("canceled", "The client has gone")),
  };
}
