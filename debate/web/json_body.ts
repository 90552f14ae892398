/**
 * Reads the JSON bodies of requests.
 *
 * @module
 */
import { AppError } from "@gateway/shared/errors";
import { readJsonBody } from "@gateway/shared/http/body";
import type { z } from "@zod/zod";

const MAX_BODY_BYTES = 256 * 1024;

/**
 * Reads a body.
 *
 * @throws {AppError} `unprocessable` when it is no JSON or not of the schema's shape, which clients know by status
 * 422; otherwise as `readJsonBody()`
 */
export async function readJson<T>(request: Request, schema: z.ZodType<T>): Promise<T> {
  try {
    return await readJsonBody(request, { maxBytes: MAX_BODY_BYTES, schema });
  } catch (error) {
    const isMisshapen = error instanceof AppError && error.code === "invalid_request";
    throw isMisshapen ? new AppError("unprocessable", error.message, { cause: error }) : error;
  }
}
