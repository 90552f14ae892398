/**
 * Reading a request's JSON body: bounded while it arrives, before anything is parsed.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { z } from "@zod/zod";
 * import { readJsonBody } from "@gateway/shared/http/body";
 *
 * const request = new Request("https://signer/v1/sign", {
 *   method: "POST",
 *   headers: { "content-type": "application/json" },
 *   body: '{"host":"web01"}',
 * });
 * const body = await readJsonBody(request, { maxBytes: 65536, schema: z.object({ host: z.string() }) });
 * assert.equal(body.host, "web01");
 * ```
 *
 * @module
 */
import type { z } from "@zod/zod";
import { AppError } from "../errors.ts";
import { formatKeyPath } from "../config/key_path.ts";
import { parseJson } from "../json.ts";
import { headerOf } from "./node_request.ts";
import { readBodyBytes } from "./body_bytes.ts";

/** How a body is read. */
export interface JsonBodyOptions<T> {
  /** The largest body, in bytes; one more is refused. */
  readonly maxBytes: number;
  /** What it must look like. */
  readonly schema: z.ZodType<T>;
}

/**
 * Reads, parses and checks a JSON body.
 *
 * @throws {AppError} `unsupported_media_type` when the content type is not `application/json`,
 * `payload_too_large` when it exceeds `maxBytes`, `invalid_request` when it breaks off, is not UTF-8, not
 * JSON, or not of the schema's shape; the message then names the first wrong key
 */
export async function readJsonBody<T>(request: Request, options: JsonBodyOptions<T>): Promise<T> {
  const contentType = headerOf(request, "content-type");
  if (contentType !== "application/json" && !isJson(contentType)) {
    throw new AppError("unsupported_media_type", "Request body must have content type application/json");
  }
  const value = parseBody(await readBodyBytes(request, options.maxBytes));
  const result = options.schema.safeParse(value);
  if (result.success) return result.data;
  const issue = result.error.issues[0];
  const key = issue === undefined || issue.path.length === 0 ? "request body" : formatKeyPath(issue.path);
  throw new AppError(
    "invalid_request",
    `Invalid ${key}: ${issue?.message.replace(/^Invalid input: /, "") ?? "wrong shape"}`,
  );
}

function isJson(contentType: string | null): boolean {
  return contentType?.split(";", 1)[0]?.trim().toLowerCase() === "application/json";
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
    return parseJson(text);
  } catch (cause) {
    throw new AppError("invalid_request", "Request body is not valid JSON", { cause });
  }
}
