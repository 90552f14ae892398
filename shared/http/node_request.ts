/**
 * A `Request` over a `node:http` message that costs next to nothing: each part is made when somebody asks for
 * it, and the body stays in the socket until it is read. A real `Request` with its stream would take as long
 * as everything else that the server does for a small request.
 *
 * Not `@hono/node-server` 2.1.8, which does the same and more: a signature took 18 to 40 % more CPU time with it
 * (270 to 380 us became 380 to 450), as a body that is bounded while it is read has to pass through its stream. It has
 * a faster way to send only if it may replace the global `Request` and `Response`, and `Deno.serve` in the same process
 * refuses those. The client's `Host` becomes part of the URL, a target that is not a path is answered without a problem
 * document, and it asks for the end of a long answer before the client has taken the beginning.
 *
 * @module
 */
import type { IncomingMessage } from "node:http";
import { AppError } from "../errors.ts";

/** The host part of every request's URL: what the client sent as `Host` decides nothing and is not shown. */
const ORIGIN = "https://localhost";

const PARTS = Symbol("parts");

/** Whoever sent a request. */
export interface RequestClient {
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
export function toRequest(message: IncomingMessage, client: RequestClient): Request {
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
