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
import type { Connections, Standing } from "./connections.ts";
import { codeOf, describeProblem, type Problem, problemResponse, STATUS } from "./problem.ts";
import {
  type IncomingRequest,
  inRequest,
  outsideRequests,
  REQUEST_ID_HEADER,
} from "../service/request_context.ts";
import { Buffer } from "node:buffer";

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
interface ExchangePorts<Peer> {
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

/** The host part of every request's URL: what the client sent as `Host` decides nothing and is not shown. */
const ORIGIN = "https://localhost";

const PARTS = Symbol("parts");

interface RequestClient {
  /** Aborted when the client goes away. */
  readonly signal: AbortSignal;
}

/** What a request is made from, and the parts of it that exist already. */
interface Parts {
  readonly message: IncomingMessage;
  readonly client: RequestClient;
  headers?: Headers;
  body?: ReadableStream<Uint8Array<ArrayBuffer>> | null;
  whole?: Request;
}

interface NodeRequest extends Request {
  [PARTS]: Parts;
}

/** Made of the inherited members of `Request`, so that `instanceof` holds, with the getters below before them. */
const prototype: NodeRequest = Object.create(Request.prototype);

define("method", ({ message }) => message.method ?? "GET");
define("url", ({ message }) => ORIGIN + message.url);
define("headers", headersOf);
define("signal", ({ client }) => client.signal);
define("body", bodyOf);
define("bodyUsed", ({ whole, message }) => whole?.bodyUsed ?? message.readableDidRead);
for (const name of ["cache", "credentials", "destination", "integrity", "keepalive"] as const) {
  define(name, (parts) => wholeOf(parts)[name]);
}
for (const name of ["mode", "redirect", "referrer", "referrerPolicy"] as const) {
  define(name, (parts) => wholeOf(parts)[name]);
}
for (const name of ["arrayBuffer", "blob", "bytes", "clone", "formData", "json", "text"] as const) {
  define(name, (parts) => wholeOf(parts)[name].bind(wholeOf(parts)));
}

function define<K extends keyof Request>(name: K, get: (parts: Parts) => Request[K]): void {
  Object.defineProperty(prototype, name, {
    get(this: NodeRequest): Request[K] {
      return get(this[PARTS]);
    },
  });
}

/**
 * The web's view of a message.
 *
 * @throws {AppError} `invalid_request` when the request target is not a path, there are two `Host` headers, or a request
 * of HTTP/1.0 has a transfer coding
 */
function toRequest(message: IncomingMessage, client: RequestClient): Request {
  if (message.url?.startsWith("/") !== true) {
    throw new AppError("invalid_request", "Request target must be a path");
  }
  if (hasTwoHosts(message)) throw new AppError("invalid_request", "Request must have one Host header");
  // A proxy of HTTP/1.0 does not know chunks and sees another end of the request (RFC 9112, section 6.1).
  if (message.httpVersionMinor === 0 && message.headers["transfer-encoding"] !== undefined) {
    throw new AppError("invalid_request", "HTTP/1.0 has no Transfer-Encoding");
  }
  const request: NodeRequest = Object.create(prototype);
  request[PARTS] = { message, client };
  return request;
}

/** Whether it depends on the reader which host a request is for (RFC 9112, section 3.2). */
function hasTwoHosts({ rawHeaders }: IncomingMessage): boolean {
  let hosts = 0;
  for (let index = 0; index < rawHeaders.length; index += 2) {
    if (rawHeaders[index]?.length === 4 && rawHeaders[index]?.toLowerCase() === "host") hosts += 1;
  }
  return hosts > 1;
}

/** The message behind a request that {@linkcode toRequest} made; `undefined` for any other request. */
export function messageOf(request: Request): IncomingMessage | undefined {
  return isNodeRequest(request) ? request[PARTS].message : undefined;
}

/** One header of a request; asking for it does not make the object that holds all of them. */
export function headerOf(request: Request, name: "content-length" | "content-type"): string | null {
  const parts = isNodeRequest(request) ? request[PARTS] : undefined;
  if (parts === undefined || parts.headers !== undefined) return request.headers.get(name);
  const { rawHeaders } = parts.message;
  let value: string | null = null;
  for (let index = 0; index + 1 < rawHeaders.length; index += 2) {
    if (rawHeaders[index]?.toLowerCase() !== name) continue;
    const next = rawHeaders[index + 1] ?? "";
    value = value === null ? next : `${value}, ${next}`;
  }
  return value;
}

function isNodeRequest(request: Request): request is NodeRequest {
  return PARTS in request;
}

function headersOf(parts: Parts): Headers {
  return parts.headers ??= toHeaders(parts.message.rawHeaders);
}

function bodyOf(parts: Parts): ReadableStream<Uint8Array<ArrayBuffer>> | null {
  if (parts.body === undefined) parts.body = toStream(parts.message);
  return parts.body;
}

/** A real request with the same parts, for what is asked too rarely to be worth a shortcut. */
function wholeOf(parts: Parts): Request {
  const body = bodyOf(parts);
  return parts.whole ??= new Request(ORIGIN + parts.message.url, {
    method: parts.message.method ?? "GET",
    headers: headersOf(parts),
    signal: parts.client.signal,
    ...(body === null ? {} : { body, duplex: "half" }),
  });
}

function toHeaders(raw: readonly string[]): Headers {
  const headers = new Headers();
  for (let index = 0; index + 1 < raw.length; index += 2) {
    headers.append(raw[index] ?? "", raw[index + 1] ?? "");
  }
  return headers;
}

/** Reads from the socket only when, and only as much as, the reader asks for. */
function toStream(message: IncomingMessage): ReadableStream<Uint8Array<ArrayBuffer>> | null {
  if (message.method === "GET" || message.method === "HEAD") return null;
  let chunks: AsyncIterator<Uint8Array<ArrayBuffer>> | undefined;
  return new ReadableStream<Uint8Array<ArrayBuffer>>({
    async pull(controller) {
      chunks ??= message[Symbol.asyncIterator]();
      const { done, value } = await chunks.next();
      if (done !== true) controller.enqueue(value);
      else if (message.complete) controller.close();
      else controller.error(new AppError("invalid_request", "Request body broke off"));
    },
    cancel() {
      message.pause();
    },
  }, { highWaterMark: 0 });
}

/** Types whose bodies are text, hence can be sent as a string: head and body then leave in one write. */
const TEXT = /^(?:application\/(?:problem\+)?json|text\/)/;
/** What is sent in one piece has at most so many bytes, and what came with the last of them. */
const SHORT_BYTES = 64 << 10;

type Reader = ReadableStreamDefaultReader<Uint8Array>;

/**
 * Sends an answer. Resolves when it is handed to the socket, or when the client has gone.
 *
 * @param isPaced whether a long answer leaves as the client takes it; otherwise it leaves in one piece, which costs less
 */
async function sendResponse(
  response: Response,
  outgoing: ServerResponse,
  isPaced: boolean,
): Promise<void> {
  const type = response.headers.get("content-type") ?? "";
  if (isPaced || type.startsWith("text/event-stream")) return await sendPieces(response, outgoing, type);
  const body = TEXT.test(type) ? await response.text() : await response.bytes();
  if (outgoing.destroyed) return;
  writeHead(response, outgoing);
  outgoing.end(body);
}

async function sendPieces(response: Response, outgoing: ServerResponse, type: string): Promise<void> {
  if (outgoing.destroyed) return await response.body?.cancel();
  const reader = response.body?.getReader();
  const stop = () => void reader?.cancel().catch(() => {});
  outgoing.on("close", stop);
  if (type.startsWith("text/event-stream")) {
    writeHead(response, outgoing);
    outgoing.flushHeaders();
  } else {
    const { bytes, isAll } = await readStart(reader);
    if (outgoing.destroyed) return;
    writeHead(response, outgoing);
    if (isAll) return void outgoing.end(TEXT.test(type) ? new TextDecoder().decode(bytes) : bytes);
    if (!outgoing.write(bytes)) await drained(outgoing);
  }
  for (;;) {
    const chunk = await reader?.read();
    if (chunk === undefined || chunk.done || outgoing.destroyed) break;
    if (!outgoing.write(chunk.value)) await drained(outgoing);
  }
  outgoing.off("close", stop);
  outgoing.end();
}

function writeHead(response: Response, outgoing: ServerResponse): void {
  outgoing.statusCode = response.status;
  response.headers.forEach((value, name) => outgoing.appendHeader(name, value));
}

/** Reads a body until it ends, or is longer than what is sent in one piece. */
async function readStart(
  reader: Reader | undefined,
): Promise<{ readonly bytes: Uint8Array; readonly isAll: boolean }> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  while (length <= SHORT_BYTES) {
    const chunk = await reader?.read();
    if (chunk === undefined || chunk.done) return { bytes: join(chunks), isAll: true };
    chunks.push(chunk.value);
    length += chunk.value.length;
  }
  return { bytes: join(chunks), isAll: false };
}

function join(chunks: readonly Uint8Array[]): Uint8Array {
  const [only] = chunks;
  return chunks.length === 1 && only !== undefined ? only : Buffer.concat(chunks);
}

function drained(outgoing: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      outgoing.off("drain", done).off("close", done);
      resolve();
    };
    outgoing.on("drain", done).on("close", done);
  });
}
