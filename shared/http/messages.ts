/**
 * The messages of an exchange: `node:http` requests as web requests, their bodies, and web responses as `node:http`
 * responses. Bodies are bounded while they arrive, before anything is parsed.
 *
 * @module
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type * as z from "@zod/zod";
import { AppError } from "../errors.ts";
import { isObject, parseUniqueJson } from "../json.ts";
import { collectBytes, formatKeyPath, joinBytes } from "../text.ts";

/** The client of a request. Few handlers need its signal, and creating one for each request is slow. */
export class Client {
  #gone: AbortController | undefined;

  /** Aborted when the client disconnects. */
  get signal(): AbortSignal {
    return (this.#gone ??= new AbortController()).signal;
  }

  leave(): void {
    (this.#gone ??= new AbortController()).abort(new AppError("canceled", "The client has gone"));
  }
}

/** The host in each request's URL. The client's `Host` header has no effect. */
const ORIGIN = "https://localhost";

const PARTS = Symbol("parts");

/** The source of a request, and the parts of it that exist already. */
interface Parts {
  readonly message: IncomingMessage;
  readonly client: Client;
  headers?: Headers;
  body?: ReadableStream<Uint8Array<ArrayBuffer>> | null;
  whole?: Request;
}

interface NodeRequest extends Request {
  [PARTS]: Parts;
}

const GETTERS: Readonly<Record<string, (parts: Parts) => unknown>> = {
  method: ({ message }) => message.method ?? "GET",
  url: ({ message }) => ORIGIN + message.url,
  headers: headersOf,
  signal: ({ client }) => client.signal,
  body: bodyOf,
  bodyUsed: ({ whole, message }) => whole?.bodyUsed ?? message.readableDidRead,
};

/** Inherits from `Request`, so that `instanceof` holds. Members without a getter above come from a real request. */
const prototype: NodeRequest = Object.create(Request.prototype);
for (const name of Object.getOwnPropertyNames(Request.prototype)) {
  const read = Object.hasOwn(GETTERS, name) ? GETTERS[name] : undefined;
  if (name === "constructor") continue;
  Object.defineProperty(prototype, name, {
    get(this: NodeRequest): unknown {
      if (read !== undefined) return read(this[PARTS]);
      const whole = wholeOf(this[PARTS]);
      const member: unknown = Reflect.get(whole, name);
      return typeof member === "function" ? member.bind(whole) : member;
    },
  });
}

/** @throws {AppError} `invalid_request` if a proxy could read the request differently */
export function toRequest(message: IncomingMessage, client: Client): Request {
  if (message.url?.startsWith("/") !== true) {
    throw new AppError("invalid_request", "Request target must be a path");
  }
  // RFC 9112, section 3.2: with several Host headers, readers could choose different ones.
  if (valuesOf(message, "host").length > 1) {
    throw new AppError("invalid_request", "Request must have one Host header");
  }
  // An HTTP/1.0 proxy knows no chunks and sees another end of the request (RFC 9112, section 6.1).
  if (message.httpVersionMinor === 0 && message.headers["transfer-encoding"] !== undefined) {
    throw new AppError("invalid_request", "HTTP/1.0 has no Transfer-Encoding");
  }
  const request: NodeRequest = Object.create(prototype);
  request[PARTS] = { message, client };
  return request;
}

function isNodeRequest(request: Request): request is NodeRequest {
  return PARTS in request;
}

function valuesOf({ rawHeaders }: IncomingMessage, name: string): readonly string[] {
  const values: string[] = [];
  for (let index = 0; index + 1 < rawHeaders.length; index += 2) {
    const isNamed = rawHeaders[index]?.length === name.length && rawHeaders[index]?.toLowerCase() === name;
    if (isNamed) values.push(rawHeaders[index + 1] ?? "");
  }
  return values;
}

/** Reads one header without creating the object that holds all of them. */
function headerOf(request: Request, name: string): string | null {
  if (!isNodeRequest(request) || request[PARTS].headers !== undefined) return request.headers.get(name);
  const values = valuesOf(request[PARTS].message, name);
  return values.length === 0 ? null : values.join(", ");
}

function headersOf(parts: Parts): Headers {
  if (parts.headers !== undefined) return parts.headers;
  const { rawHeaders } = parts.message;
  parts.headers = new Headers();
  for (let index = 0; index + 1 < rawHeaders.length; index += 2) {
    parts.headers.append(rawHeaders[index] ?? "", rawHeaders[index + 1] ?? "");
  }
  return parts.headers;
}

function wholeOf(parts: Parts): Request {
  const { message, client } = parts;
  const body = bodyOf(parts);
  return parts.whole ??= new Request(ORIGIN + message.url, {
    method: message.method ?? "GET",
    headers: headersOf(parts),
    signal: client.signal,
    ...(body === null ? {} : { body, duplex: "half" }),
  });
}

/** Creates the stream of a body, which reads from the socket only as fast as the stream is read. */
function bodyOf(parts: Parts): ReadableStream<Uint8Array<ArrayBuffer>> | null {
  if (parts.body !== undefined) return parts.body;
  const { message } = parts;
  if (message.method === "GET" || message.method === "HEAD") return parts.body = null;
  let chunks: AsyncIterator<Uint8Array<ArrayBuffer>> | undefined;
  return parts.body = new ReadableStream<Uint8Array<ArrayBuffer>>({
    async pull(controller) {
      chunks ??= message[Symbol.asyncIterator]();
      const { done, value } = await chunks.next();
      if (done !== true) controller.enqueue(value);
      else if (message.complete) controller.close();
      else controller.error(brokeOff());
    },
    cancel: () => void message.pause(),
  }, { highWaterMark: 0 });
}

/** Bodies of these types are sent as strings, so head and body leave in one write. */
const TEXT = /^(?:application\/(?:problem\+)?json|text\/)/;
/** The size from which a paced body is sent in pieces. */
const SHORT_BYTES = 64 << 10;

/** Resolves when the response is sent, or the client has disconnected. */
export async function sendResponse(
  response: Response,
  outgoing: ServerResponse,
  isPaced: boolean,
): Promise<void> {
  const type = response.headers.get("content-type") ?? "";
  const isEvents = type.startsWith("text/event-stream");
  const writeHead = () => {
    outgoing.statusCode = response.status;
    response.headers.forEach((value, name) => outgoing.appendHeader(name, value));
  };
  if (!isPaced && !isEvents) {
    const body = TEXT.test(type) ? await response.text() : await response.bytes();
    if (outgoing.destroyed) return;
    writeHead();
    return void outgoing.end(body);
  }
  if (outgoing.destroyed) return await response.body?.cancel();
  const reader = response.body?.getReader();
  const read = async () => (await reader?.read())?.value;
  const stop = () => void reader?.cancel().catch(() => {});
  outgoing.on("close", stop);
  // Short bodies leave in one piece. Events leave immediately.
  const start: Uint8Array[] = [];
  let length = 0;
  let chunk = isEvents ? undefined : await read();
  for (; chunk !== undefined; chunk = await read()) {
    start.push(chunk);
    length += chunk.length;
    if (length > SHORT_BYTES) break;
  }
  if (outgoing.destroyed) return;
  writeHead();
  if (isEvents) outgoing.flushHeaders();
  else if (length <= SHORT_BYTES) {
    const bytes = joinBytes(start);
    return void outgoing.end(TEXT.test(type) ? new TextDecoder().decode(bytes) : bytes);
  } else if (!outgoing.write(joinBytes(start))) await drained(outgoing);
  for (chunk = await read(); chunk !== undefined && !outgoing.destroyed; chunk = await read()) {
    if (!outgoing.write(chunk)) await drained(outgoing);
  }
  outgoing.off("close", stop);
  outgoing.end();
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

/**
 * Rejects a body without the content type of JSON. A page of another site cannot send this type without a
 * preflight request (CORS), so routes that a browser can reach with a certificate, cookie or token call this.
 *
 * @throws {AppError} `unsupported_media_type`
 */
export function requireJsonType(request: Request): void {
  const type = headerOf(request, "content-type")?.split(";", 1)[0]?.trim().toLowerCase();
  if (type === "application/json") return;
  throw new AppError("unsupported_media_type", "Request body must have content type application/json");
}

/**
 * Reads, parses and checks a JSON body of any content type. If the schema does not accept `null` for a member, `null`
 * counts as absent.
 *
 * @throws {AppError} `payload_too_large`, or `invalid_request` naming the first wrong key
 */
export async function readJsonBody<T>(request: Request, { maxBytes, larger, schema }: {
  readonly maxBytes: number;
  readonly schema: z.ZodType<T>;
  /** A higher limit for bodies whose content `mayBe` larger. */
  readonly larger?: { readonly maxBytes: number; readonly mayBe: (value: T) => boolean };
}): Promise<T> {
  const bytes = await readBodyBytes(request, larger?.maxBytes ?? maxBytes);
  if (bytes.length <= maxBytes) return decodeBody(bytes, schema);
  let value: T;
  try {
    value = decodeBody(bytes, schema);
  } catch (cause) {
    throw tooLarge(maxBytes, cause);
  }
  if (larger?.mayBe(value) !== true) throw tooLarge(maxBytes);
  return value;
}

const DECODER = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

function decodeBody<T>(bytes: Uint8Array, schema: z.ZodType<T>): T {
  let reason = "is not valid UTF-8";
  let value: unknown;
  try {
    const text = DECODER.decode(bytes);
    reason = "is not valid JSON, or repeats a key";
    value = parseUniqueJson(text);
  } catch (cause) {
    throw new AppError("invalid_request", `Request body ${reason}`, { cause });
  }
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  const present = isObject(value) ? Object.entries(value).filter(([, member]) => member !== null) : [];
  const withoutNulls = schema.safeParse(Object.fromEntries(present));
  if (isObject(value) && withoutNulls.success) return withoutNulls.data;
  const [{ path, message } = { path: [], message: "wrong shape" }] = result.error.issues;
  const key = path.length === 0 ? "request body" : formatKeyPath(path);
  throw new AppError("invalid_request", `Invalid ${key}: ${message.replace(/^Invalid input: /, "")}`);
}

/** Reads a body. @throws {AppError} `payload_too_large` beyond `maxBytes`, `invalid_request` if it breaks off */
export async function readBodyBytes(request: Request, maxBytes: number): Promise<Uint8Array> {
  // Reject a body by its announced size without reading it. An absent or invalid header yields 0 or NaN, and
  // the count below limits the body.
  if (Number(headerOf(request, "content-length")) > maxBytes) throw tooLarge(maxBytes);
  if (isNodeRequest(request)) return await readMessage(request[PARTS].message, maxBytes);
  if (request.body === null) return new Uint8Array();
  const bytes = await collectBytes(request.body, maxBytes).catch((cause) => {
    throw brokeOff(cause);
  });
  if (bytes === undefined) throw tooLarge(maxBytes);
  return bytes;
}

/** Reads the body directly, because the web stream of the request costs more than parsing the body. */
function readMessage(message: IncomingMessage, maxBytes: number): Promise<Uint8Array> {
  if (message.readableDidRead) throw new TypeError("Request body was read before");
  return new Promise((resolve, reject) => {
    const chunks: Uint8Array[] = [];
    let length = 0;
    const take = (chunk: Uint8Array) => {
      length += chunk.length;
      chunks.push(chunk);
      if (length <= maxBytes) return;
      // The rest is read and dropped, within the time limit for a request.
      message.off("data", take).resume();
      reject(tooLarge(maxBytes));
    };
    message.on("data", take);
    message.on("end", () => resolve(joinBytes(chunks)));
    message.on("error", (cause) => reject(brokeOff(cause)));
    // "close" follows every body, so create the slow error only if the body is incomplete.
    message.on("close", () => message.complete || reject(brokeOff()));
  });
}

function tooLarge(maxBytes: number, cause?: unknown): AppError {
  return new AppError("payload_too_large", `Request body is larger than ${maxBytes} bytes`, { cause });
}

function brokeOff(cause?: unknown): AppError {
  return new AppError("invalid_request", "Request body broke off", { cause });
}
