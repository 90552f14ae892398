import { AppError } from "@gateway/shared/errors";
import { quoteText } from "@gateway/shared/text";

/** The longest argument, in bytes of UTF-8. */
export const MAX_FIELD_BYTES = 65536;

/**
 * Refuses a text that is too long or holds a NUL, which would end it early in C programs.
 *
 * @throws {AppError} `invalid_request`
 */
export function guardInput(field: string, value: unknown): void {
  if (typeof value !== "string") return;
  if (new TextEncoder().encode(value).length > MAX_FIELD_BYTES) {
    throw new AppError(
      "invalid_request",
      `field ${quoteText(field)} exceeds the limit of ${MAX_FIELD_BYTES} bytes`,
    );
  }
  if (value.includes("\0")) {
    throw new AppError("invalid_request", `field ${quoteText(field)} contains null bytes`);
  }
}
