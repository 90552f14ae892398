/**
 * What can go wrong, as one closed list of codes and one error class.
 *
 * Expected outcomes (a denial, a needed approval) are values of the domain and not errors; an
 * {@linkcode AppError} is a fault that a caller of the service, or its operator, has to be told about.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { AppError } from "@gateway/shared/errors";
 *
 * const error = new AppError("rate_limited", "Sign requests of this caller exceed 60 a minute", {
 *   retryAfterSeconds: 1,
 * });
 * assert.equal(error.code, "rate_limited");
 * assert.equal(error.retryAfterSeconds, 1);
 * ```
 *
 * @module
 */

/** Every error code a service answers with; stable names for programs. */
export const ERROR_CODES = [
  "invalid_request",
  "unauthenticated",
  "forbidden",
  "denied",
  "approval_required",
  "frozen",
  "not_found",
  "unknown_host",
  "method_not_allowed",
  "timeout",
  "conflict",
  "gone",
  "payload_too_large",
  "unsupported_media_type",
  "unprocessable",
  "rate_limited",
  "not_supported",
  "invalid_config",
  "audit_unavailable",
  "upstream_failure",
  "answer_lost",
  "signing_refused",
  "state_stale",
  "canceled",
  "internal",
] as const;

/** One code of {@linkcode ERROR_CODES}. */
export type ErrorCode = (typeof ERROR_CODES)[number];

/** What an {@linkcode AppError} carries beside code and message. */
interface AppErrorOptions {
  /** What caused it; for logs only, never sent to a caller. */
  readonly cause?: unknown;
  /** Seconds after which a retry can succeed; becomes the `Retry-After` header. */
  readonly retryAfterSeconds?: number;
}

/**
 * A fault with a code. The message is for people and may be sent to the caller: no paths, addresses or
 * secrets of the service in it, unless the error is only ever shown to the operator (`invalid_config`).
 */
export class AppError extends Error {
  /** Tells it from other errors in a log. */
  override readonly name = "AppError";
  readonly code: ErrorCode;
  /** Seconds after which a retry can succeed, where that is known. */
  readonly retryAfterSeconds: number | undefined;

  /** A fault with a message for people. */
  constructor(code: ErrorCode, message: string, options: AppErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.retryAfterSeconds = options.retryAfterSeconds;
  }
}

/** The text that the specification fixes for an action withheld because its record could not be written. */
export const AUDIT_UNAVAILABLE = "audit unavailable";

/** What an error of unknown origin says: its message, or its name where it has none; of anything else the text. */
export function errorText(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.message === "" ? error.name : error.message;
}

/** What kind of error it is, and nothing of what it says: for texts that paths and secrets must stay out of. */
export function errorName(error: unknown): string {
  return error instanceof Error ? error.name : typeof error;
}

/** How many causes {@linkcode describeFault} follows; nothing keeps an error from being its own cause. */
const MOST_CAUSES = 8;

/** An error with its causes on one line, for the operator's log: never for a caller. */
export function describeFault(error: unknown): string {
  const texts: string[] = [];
  for (let next = error; texts.length <= MOST_CAUSES; next = next.cause) {
    texts.push(errorText(next));
    if (!(next instanceof Error) || next.cause === undefined) break;
  }
  return texts.join(": ");
}
