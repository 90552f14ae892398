/**
 * Reading a request's body: bounded while it arrives, before anything is parsed.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import * as z from "@zod/zod";
 * import { readJsonBody } from "@gateway/shared/http";
 *
 * const request = new Request("https://signer/v1/sign", {
 *   method: "POST",
 *   body: '{"host":"web01"}',
 * });
 * const body = await readJsonBody(request, { maxBytes: 65536, schema: z.object({ host: z.string() }) });
 * assert.equal(body.host, "web01");
 * ```
 *
 * @module
 */
import type { IncomingMessage } from "node:http";
import type * as z from "@zod/zod";
import { collectBytes, concatBytes, formatKeyPath } from "../text.ts";
import { AppError } from "../errors.ts";
import { parseUniqueJson } from "../json.ts";
import { headerOf, messageOf } from "./exchange.ts";

interface JsonBodyOptions<T> {
  /** The largest body, in bytes; one more is refused. */
  readonly maxBytes: number;
  readonly schema: z.ZodType<T>;
  /** What may be larger than that, and how large, as its content says. */
  readonly larger?: {
    readonly maxBytes: number;
    readonly mayBe: (value: T) => boolean;
  };
}

/**
 * Rejects a body that is not declared as JSON. A page of another site cannot declare it: its browser would first ask
 * this server (CORS). Routes that a browser can reach with a certificate, a cookie or a token call this.
 *
 * @throws {AppError} `unsupported_media_type`
 */
export function requireJsonType(request: Request): void {
  const type = headerOf(request, "content-type")?.split(";", 1)[0]?.trim().toLowerCase();
  if (type === "application/json") return;
  throw new AppError("unsupported_media_type", "Request body must have content type application/json");
}

/**
 * Reads, parses and checks a JSON body, whatever its content type. A member that is `null` where the schema does not
 * accept `null` counts as absent.
 *
 * @throws {AppError} `payload_too_large` when the body exceeds `maxBytes`, `invalid_request` when it breaks off, is
 * not UTF-8, not JSON, has an object with two equal keys, or is not of the schema's shape; the message then names the
 * first wrong key
 */
export async function readJsonBody<T>(request: Request, options: JsonBodyOptions<T>): Promise<T> {
  const { maxBytes, larger } = options;
  const bytes = await readBodyBytes(request, larger?.maxBytes ?? maxBytes);
  if (bytes.length <= maxBytes) return decodeBody(bytes, options.schema);
  let value: T;
  try {
    value = decodeBody(bytes, options.schema);
  } catch (cause) {
    throw tooLarge(maxBytes, cause);
  }
  if (larger?.mayBe(value) !== true) throw tooLarge(maxBytes);
  return value;
}

function decodeBody<T>(bytes: Uint8Array, schema: z.ZodType<T>): T {
  const value = parseBody(bytes);
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  const withoutNulls = schema.safeParse(dropNulls(value));
  if (withoutNulls.success) return withoutNulls.data;
  const issue = result.error.issues[0];
  const key = issue === undefined || issue.path.length === 0 ? "request body" : formatKeyPath(issue.path);
  throw new AppError(
    "invalid_request",
    `Invalid ${key}: ${issue?.message.replace(/^Invalid input: /, "") ?? "wrong shape"}`,
  );
}

function dropNulls(value: unknown): unknown {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).filter(([, member]) => member !== null));
}

const DECODER = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

function parseBody(bytes: Uint8Array): unknown {
  let text: string;
  try {
    text = DECODER.decode(bytes);
  } catch (cause) {
    throw new AppError("invalid_request", "Request body is not valid UTF-8", { cause });
  }
  try {
    return parseUniqueJson(text);
  } catch (cause) {
    throw new AppError("invalid_request", "Request body is not valid JSON, or repeats a key", { cause });
  }
}

/**
 * Reads the bytes of a body to its end.
 *
 * @throws {AppError} `payload_too_large` as soon as it exceeds `maxBytes`, `invalid_request` when it breaks off
 */
export async function readBodyBytes(request: Request, maxBytes: number): Promise<Uint8Array> {
  // Announced sizes are refused unread. An absent or absurd header is NaN or 0, and the count decides.
  if (Number(headerOf(request, "content-length")) > maxBytes) throw tooLarge(maxBytes);
  const message = messageOf(request);
  const chunks = message === undefined
    ? await readStream(request.body, maxBytes)
    : await readMessage(message, maxBytes);
  const [first] = chunks;
  return first !== undefined && chunks.length === 1 ? first : concatBytes(chunks);
}

/** Past the stream of the request: its machinery would cost more than parsing the body. */
function readMessage(message: IncomingMessage, maxBytes: number): Promise<readonly Uint8Array[]> {
  if (message.readableDidRead) throw new TypeError("Request body was read before");
  return new Promise((resolve, reject) => {
    const chunks: Uint8Array[] = [];
    let length = 0;
    const take = (chunk: Uint8Array) => {
      length += chunk.length;
      chunks.push(chunk);
      if (length <= maxBytes) return;
      // The rest flows on and is dropped, within the server's time for a request.
      message.off("data", take).resume();
      reject(tooLarge(maxBytes));
    };
    message.on("data", take);
    message.on("end", () => resolve(chunks));
    message.on("error", (cause) => reject(brokeOff(cause)));
    message.on("close", () => {
      // Closes after every body; an error with its stack is made only for one that broke off.
      if (!message.complete) reject(brokeOff());
    });
  });
}

async function readStream(body: Request["body"], maxBytes: number): Promise<readonly Uint8Array[]> {
  if (body === null) return [];
  const bytes = await collectBytes(body, maxBytes).catch((cause) => {
    throw brokeOff(cause);
  });
  if (bytes === undefined) throw tooLarge(maxBytes);
  return [bytes];
}

function tooLarge(maxBytes: number, cause?: unknown): AppError {
  return new AppError("payload_too_large", `Request body is larger than ${maxBytes} bytes`, { cause });
}

function brokeOff(cause?: unknown): AppError {
  return new AppError("invalid_request", "Request body broke off", { cause });
}
