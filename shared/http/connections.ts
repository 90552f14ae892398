/**
 * The connections of a listener, and the exchanges on them: one request, one answer.
 *
 * @module
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { systemClock } from "../clock.ts";
import { AppError, type ErrorCode, STATUS } from "../errors.ts";
import { stringifyJson } from "../json.ts";
import { inRequest, outsideRequests, REQUEST_ID_HEADER } from "../service/mod.ts";
import { ConnectionLimiter, type ConnectionLimits, type PeerStatus } from "./limits.ts";
import { Client, sendResponse, toRequest } from "./messages.ts";
import { codeOf, describeProblem, type Problem, problemResponse } from "./problem.ts";

/** Identifies the peers of a listener. */
export interface Authenticator<Peer> {
  /** Called once for each connection. */
  begin(socket: Socket): PeerStatus;
  /** @throws {AppError} `unauthenticated` if requests of this peer are rejected */
  identify(socket: Duplex, connections: Connections): Peer;
  /** Called when the trusted CAs change, because each peer must then be identified again. */
  forget?(): void;
}

/** The handler of a listener, and its reports. */
export interface DispatchOptions<Peer> {
  /** Answers a request. Its errors become problem responses. */
  readonly handler: (request: Request, peer: Peer) => Response | Promise<Response>;
  /** Called for each failure with status 500 or above. The response carries the same request id. */
  readonly onError: (error: unknown, requestId: string) => void;
  readonly onAnswer?: (status: number, code: ErrorCode | undefined) => void;
  /** The page for browsers without a valid certificate. */
  readonly unauthenticatedPage?: (problem: Problem) => Response;
  /** Whether long responses are sent in pieces, as fast as the client reads; false by default. */
  readonly isPaced?: boolean;
}

interface Connection {
  readonly socket: Socket;
  /** Ends the time limit for identification. */
  readonly identified: AbortController;
  /** The response to the newest request. Responses leave in the order of the requests. */
  lastAnswer?: ServerResponse;
  unanswered: number;
  /** Whether a response has announced the end of the connection. */
  isClosing: boolean;
  /** Whether the next response is the last one on the connection. */
  isRetired: boolean;
}

/**
 * The maximum number of pipelined requests. Without a limit, one connection could start any number of
 * handlers.
 */
const MAX_UNANSWERED = 16;

/** How long input after the last response is read and dropped. */
const LINGER_MS = 1000;

/**
 * The number of parts of a time limit. While the event loop is blocked, it does not read a peer's data, so a
 * late timer ends only one part.
 */
const WAIT_PARTS = 10;

/** The abort reason of timers: creating an error with its stack would be slow. */
const OVER = "over";

/** The open connections of a listener. */
export class Connections {
  readonly #identifyMs: number;
  readonly #limiter: ConnectionLimiter<Connection>;
  /** By address and port of the client: the TLS socket of a request is not the accepted TCP socket. */
  readonly #open = new Map<string, Connection>();
  /** By the TLS socket or, without TLS, by the TCP socket. */
  readonly #begun = new WeakMap<object, Connection>();

  constructor(limits: ConnectionLimits, identifyMs: number) {
    this.#limiter = new ConnectionLimiter(limits);
    this.#identifyMs = identifyMs;
  }

  get counts() {
    return this.#limiter.counts;
  }

  /** Takes an accepted connection, before its TLS handshake. */
  add(socket: Socket): void {
    const key = keyOf(socket);
    const identified = new AbortController();
    void destroyAfter(this.#identifyMs, socket, identified);
    const connection = { socket, identified, unanswered: 0, isClosing: false, isRetired: false };
    this.#open.set(key, connection);
    socket.on("close", () => {
      this.#open.delete(key);
      this.#limiter.remove(connection);
    });
    this.#limiter.add(connection, socket.remoteAddress ?? "")?.socket.destroy();
  }

  /** Takes a connection whose TLS handshake is complete. */
  begin(socket: Socket, status: PeerStatus): void {
    const connection = this.#open.get(keyOf(socket));
    if (connection === undefined) return;
    this.#begun.set(socket, connection);
    this.#admit(connection, status);
  }

  /** Marks a peer as authenticated. If the limit is reached, its next response is the last. */
  trust(socket: object, name?: string): void {
    const connection = this.#begun.get(socket);
    if (connection === undefined) return;
    this.#admit(connection, { kind: "authenticated", ...(name !== undefined && { name }) });
  }

  #admit(connection: Connection, status: PeerStatus): void {
    if (status.kind === "unauthenticated" || !this.#limiter.admit(connection, status)) return;
    connection.identified.abort(OVER);
  }

  /** @returns whether the request gets a response. A connection with too many open requests is closed. */
  beginRequest(socket: Socket, outgoing: ServerResponse): boolean {
    const connection = this.#begun.get(socket);
    if (connection === undefined) return true;
    if (connection.isClosing) return false;
    if (connection.unanswered >= MAX_UNANSWERED) {
      connection.socket.destroy();
      return false;
    }
    connection.identified.abort(OVER);
    connection.unanswered += 1;
    outgoing.on("close", () => connection.unanswered -= 1);
    connection.lastAnswer = outgoing;
    return true;
  }

  mayStay(socket: object): boolean {
    const connection = this.#begun.get(socket);
    return connection !== undefined && !connection.isClosing && !connection.isRetired &&
      this.#limiter.isAuthenticated(connection);
  }

  /**
   * Closes a connection after its next response. Input is read and dropped for a moment: closing over unread bytes
   * resets the connection, and the client could lose the response (RFC 9112, section 9.6).
   */
  closeAfter(socket: Socket): void {
    const connection = this.#begun.get(socket);
    if (connection !== undefined) connection.isClosing = true;
    // node:http calls this method after the last response.
    socket.destroySoon = () => {
      socket.end();
      void destroyAfter(LINGER_MS, connection?.socket ?? socket, new AbortController());
    };
  }

  lastAnswer(socket: object): ServerResponse | undefined {
    return this.#begun.get(socket)?.lastAnswer;
  }

  /** Closes the connections without an open request. */
  closeIdle(): void {
    for (const { socket, lastAnswer } of this.#open.values()) {
      if (lastAnswer === undefined || lastAnswer.writableFinished) socket.destroy();
    }
  }

  /** Closes all connections: those with an open request after its response. */
  retire(): void {
    for (const connection of this.#open.values()) connection.isRetired = true;
    this.closeIdle();
  }

  closeAll(): void {
    for (const { socket } of this.#open.values()) socket.destroy();
  }
}

function keyOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}

/** @param kept when aborted, the socket stays open */
async function destroyAfter(ms: number, socket: Socket, kept: AbortController): Promise<void> {
  socket.on("close", () => kept.abort(OVER));
  try {
    for (let part = 0; part < WAIT_PARTS; part++) await systemClock.sleep(ms / WAIT_PARTS, kept.signal);
    socket.destroy();
  } catch {
    // The wait was aborted, so the socket stays open.
  }
}

/** Answers the requests of one listener. */
export class RequestDispatcher<Peer> {
  readonly #options: DispatchOptions<Peer>;
  readonly #connections: Connections;
  readonly #authenticator: Authenticator<Peer>;
  readonly #begun = new WeakSet<Duplex>();

  constructor(options: DispatchOptions<Peer>, connections: Connections, authenticator: Authenticator<Peer>) {
    this.#options = options;
    this.#connections = connections;
    this.#authenticator = authenticator;
  }

  /** Takes a connection on which HTTP can begin. */
  begin(socket: Socket): void {
    this.#begun.add(socket);
    this.#connections.begin(socket, this.#authenticator.begin(socket));
  }

  answer(message: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const { traceparent, tracestate, [REQUEST_ID_HEADER]: id } = message.headers;
    // The name of a span omits the path, which may contain IDs.
    const incoming = { name: message.method ?? "", id, traceparent, tracestate };
    return inRequest(incoming, (id) => this.#answer(message, outgoing, id));
  }

  async #answer(message: IncomingMessage, outgoing: ServerResponse, id: string): Promise<void> {
    const { onAnswer, onError, isPaced = false } = this.#options;
    const client = new Client();
    outgoing.on("close", () => {
      if (!outgoing.writableFinished) client.leave();
    });
    // A response that could not be sent is not an error of the service. The event "close" follows.
    outgoing.on("error", () => {});
    try {
      const response = await this.#respond(message, client, id);
      onAnswer?.(response.status, response.status < 400 ? undefined : codeOf(response));
      outgoing.setHeader(REQUEST_ID_HEADER, id);
      if (this.#isLast(message, response)) {
        this.#connections.closeAfter(message.socket);
        outgoing.setHeader("connection", "close");
      }
      await sendResponse(response, outgoing, isPaced);
    } catch (error) {
      if (!outgoing.destroyed) onError(error, id);
      outgoing.destroy();
    }
  }

  /**
   * Whether the connection closes after the response: for unauthenticated peers, HTTP/1.0, and requests whose
   * body was not read completely, because the body may be endless.
   */
  #isLast({ complete, httpVersionMinor, socket }: IncomingMessage, { status }: Response): boolean {
    return !complete || httpVersionMinor === 0 || status === STATUS.unauthenticated ||
      !this.#connections.mayStay(socket);
  }

  async #respond(message: IncomingMessage, client: Client, requestId: string): Promise<Response> {
    const { handler, onError, unauthenticatedPage: page } = this.#options;
    try {
      const peer = this.#authenticator.identify(message.socket, this.#connections);
      return await handler(toRequest(message, client), peer);
    } catch (error) {
      const response = problemResponse(error, { requestId });
      if (response.status >= STATUS.internal) onError(error, requestId);
      const isForBrowser = response.status === STATUS.unauthenticated && page !== undefined &&
        message.headers.accept?.includes("text/html") === true;
      return isForBrowser ? page(describeProblem(error, { requestId })) : response;
    }
  }

  /** Answers input that is not an HTTP request or is too late, and closes the connection. */
  refuse(error: Error, socket: Duplex): void {
    const last = this.#connections.lastAnswer(socket);
    const isInsideAnswer = last !== undefined && last.headersSent && !last.writableFinished;
    if (!this.#begun.has(socket) || !socket.writable || isInsideAnswer) {
      socket.destroy();
      return;
    }
    // Node may call this function within another caller's request.
    const problem = outsideRequests(() => describeProblem(this.#refusalOf(error, socket)));
    const { status, title, code } = problem;
    this.#options.onAnswer?.(status, code);
    const body = `${stringifyJson(problem)}\n`;
    const head = `HTTP/1.1 ${status} ${title}\r\nContent-Type: application/problem+json\r\n` +
      `Content-Length: ${new TextEncoder().encode(body).length}\r\nConnection: close\r\n\r\n`;
    socket.end(head + body, () => socket.destroy());
  }

  #refusalOf(cause: Error, socket: Duplex): unknown {
    try {
      this.#authenticator.identify(socket, this.#connections);
    } catch (unauthenticated) {
      return unauthenticated;
    }
    return "code" in cause && cause.code === "ERR_HTTP_REQUEST_TIMEOUT"
      ? new AppError("timeout", "The request did not arrive in time", { cause })
      : new AppError("invalid_request", "The request is not well-formed HTTP", { cause });
  }
}
