/**
 * Reads the forms of requests.
 *
 * @module
 */
import { AppError } from "@gateway/shared/errors";
import { readBodyBytes } from "@gateway/shared/http/body_bytes";
import { type Form, type FormLimits, MAX_FIELD_BYTES, maxFormBytes, tooLarge } from "./form_limits.ts";
import { boundaryOf, readMultipart } from "./multipart.ts";

/**
 * Reads a form, with files or without.
 *
 * @throws {AppError} `unsupported_media_type` for anything else; otherwise as {@linkcode readMultipart}
 */
export async function readForm(request: Request, limits: FormLimits): Promise<Form> {
  const type = request.headers.get("content-type") ?? "";
  const boundary = boundaryOf(type);
  const maxBytes = maxFormBytes(limits);
  if (boundary !== undefined) {
    // What says that it is too large is not read at all.
    if (Number(request.headers.get("content-length")) > maxBytes) throw tooLarge("The form is", maxBytes);
    return await readMultipart(request.body ?? ReadableStream.from<Uint8Array>([]), boundary, limits);
  }
  if (!/^application\/x-www-form-urlencoded\s*(?:;|$)/i.test(type)) {
    throw new AppError(
      "unsupported_media_type",
      "Request body must be a form: multipart/form-data, or application/x-www-form-urlencoded without files",
    );
  }
  const text = new TextDecoder().decode(await readBodyBytes(request, MAX_FIELD_BYTES));
  return { fields: new Map(new URLSearchParams(text)), files: new Map() };
}
