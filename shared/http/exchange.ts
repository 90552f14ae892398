/**
 * One request, one answer, on connections.
 *
 * @module
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { AppError, type ErrorCode } from "../errors.ts";
import { stringifyJson } from "../json.ts";
import type { Standing } from "./connection_room.ts";
import type { Connections } from "./connections.ts";
import { toRequest } from "./node_request.ts";
import { sendResponse } from "./node_response.ts";
import { codeOf, describeProblem, type Problem, problemResponse, STATUS } from "./problem.ts";
import { type IncomingRequest, inRequest, outsideRequests, REQUEST_ID_HEADER } from "../request_context.ts";

/** Who is at the other end of connections. */
export interface Peers<Peer> {
  /** To be told of every connection on which HTTP can begin; says what is known of its peer. */
  begin(socket: Socket): Standing;
  /**
   * @param connections for peers of whom more is known later
   * @throws {AppError} `unauthenticated` when it is nobody who may be answered
   */
  identify(socket: Duplex, connections: Connections): Peer;
}

/** What {@linkcode Exchanges} needs. */
export interface ExchangeOptions<Peer> {
  /** Answers a request. What it throws becomes a problem response. */
  readonly handler: (request: Request, peer: Peer) => Response | Promise<Response>;
  /** Told of every fault answered with status 500 or above; the answer carries the same request id. */
  readonly onError: (error: unknown, requestId: string) => void;
  /** Told of every answer, with the code of the fault that it tells of. */
  readonly onAnswer?: (status: number, code: ErrorCode | undefined) => void;
  /** The page for a browser that has shown no valid certificate, whose reader would otherwise see JSON; status 401. */
  readonly unauthenticatedPage?: (problem: Problem) => Response;
  /** Whether long answers leave as the client takes them, and their makers can tell; by default in one piece. */
  readonly isPaced?: boolean;
}

/** Where {@linkcode Exchanges} finds the other end. */
export interface ExchangePorts<Peer> {
  readonly connections: Connections;
  readonly peers: Peers<Peer>;
}

/** Turns requests into answers; one for each listener. */
export class Exchanges<Peer> {
  readonly #options: ExchangeOptions<Peer>;
  readonly #connections: Connections;
  readonly #peers: Peers<Peer>;
  readonly #begun = new WeakSet<Duplex>();

  constructor(options: ExchangeOptions<Peer>, { connections, peers }: ExchangePorts<Peer>) {
    this.#options = options;
    this.#connections = connections;
    this.#peers = peers;
  }

  /** To be told of every connection on which HTTP can begin, before its first request. */
  begin(socket: Socket): void {
    this.#begun.add(socket);
    this.#connections.begin(socket, this.#peers.begin(socket));
  }

  answer(message: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    return inRequest(describeRequest(message), (id) => this.#answer(message, outgoing, id));
  }

  async #answer(message: IncomingMessage, outgoing: ServerResponse, id: string): Promise<void> {
    const client = new Client();
    outgoing.on("close", () => {
      if (!outgoing.writableFinished) client.leave();
    });
    outgoing.on("error", ignore);
    try {
      const { isPaced = false } = this.#options;
      const response = await this.#respond(message, client, id);
      this.#options.onAnswer?.(response.status, codeOf(response));
      outgoing.setHeader(REQUEST_ID_HEADER, id);
      if (this.#isLast(message, response)) {
        this.#connections.closeAfter(message.socket);
        outgoing.setHeader("connection", "close");
      }
      await sendResponse(response, outgoing, isPaced);
    } catch (error) {
      if (!outgoing.destroyed) this.#options.onError(error, id);
      outgoing.destroy();
    }
  }

  /**
   * Whether a connection closes after an answer: whoever has not said who he is keeps none, and neither does
   * whoever has been answered before his body was read, which he could send for as long as he likes. HTTP/1.0 knows no
   * other way.
   */
  #isLast({ complete, httpVersionMinor, socket }: IncomingMessage, { status }: Response): boolean {
    return !complete || httpVersionMinor === 0 || status === STATUS.unauthenticated ||
      !this.#connections.mayStay(socket);
  }

  /** Answers what is not an HTTP request, or did not become one in time, and closes the connection. */
  refuse(error: Error, socket: Duplex): void {
    const last = this.#connections.lastAnswer(socket);
    const isInsideAnswer = last !== undefined && last.headersSent && !last.writableFinished;
    if (!this.#begun.has(socket) || !socket.writable || isInsideAnswer) {
      socket.destroy();
      return;
    }
    // Node may still be in another caller's request when this comes.
    const problem = outsideRequests(() => describeProblem(this.#refusalOf(error, socket)));
    this.#options.onAnswer?.(problem.status, problem.code);
    socket.end(formatRefusal(problem), () => socket.destroy());
  }

  #refusalOf(error: Error, socket: Duplex): unknown {
    try {
      this.#peers.identify(socket, this.#connections);
    } catch (unauthenticated) {
      return unauthenticated;
    }
    const isTimeout = "code" in error && error.code === "ERR_HTTP_REQUEST_TIMEOUT";
    return isTimeout
      ? new AppError("timeout", "The request did not arrive in time", { cause: error })
      : new AppError("invalid_request", "The request is not well-formed HTTP", { cause: error });
  }

  async #respond(message: IncomingMessage, client: Client, requestId: string): Promise<Response> {
    try {
      const peer = this.#peers.identify(message.socket, this.#connections);
      return await this.#options.handler(toRequest(message, client), peer);
    } catch (error) {
      const response = problemResponse(error, { requestId });
      if (response.status >= STATUS.internal) this.#options.onError(error, requestId);
      const { unauthenticatedPage: page } = this.#options;
      if (response.status !== STATUS.unauthenticated || page === undefined) return response;
      return message.headers.accept?.includes("text/html") === true
        ? page(describeProblem(error, { requestId }))
        : response;
    }
  }
}

/** What its headers say of a request. The path is not part of its name, for it may hold ids. */
function describeRequest({ method = "", headers }: IncomingMessage): IncomingRequest {
  const { traceparent, tracestate } = headers;
  return { name: method, id: headers[REQUEST_ID_HEADER], traceparent, tracestate };
}

function formatRefusal(problem: Problem): string {
  const body = `${stringifyJson(problem)}\n`;
  return `HTTP/1.1 ${problem.status} ${problem.title}\r\nContent-Type: application/problem+json\r\n` +
    `Content-Length: ${new TextEncoder().encode(body).length}\r\nConnection: close\r\n\r\n${body}`;
}

/** Whether the client is still there. Few handlers ask, and making a signal for each request is not free. */
class Client {
  #gone: AbortController | undefined;

  get signal(): AbortSignal {
    return (this.#gone ??= new AbortController()).signal;
  }

  leave(): void {
    (this.#gone ??= new AbortController()).abort(new AppError("canceled", "The client has gone"));
  }
}

/** An answer that can't be sent is nobody's fault here; `close` follows. */
function ignore(): void {}
