/**
 * Faults: one closed list of codes and one error class. Expected outcomes, such as a denial, are values of the domain
 * and not errors.
 *
 * @module
 */

/** Every error code of a service, with its HTTP status; the names are stable. */
export const STATUS = {
  invalid_request: 400,
  not_supported: 400,
  unauthenticated: 401,
  forbidden: 403,
  denied: 403,
  approval_required: 403,
  frozen: 403,
  not_found: 404,
  unknown_host: 404,
  method_not_allowed: 405,
  timeout: 408,
  conflict: 409,
  gone: 410,
  payload_too_large: 413,
  unsupported_media_type: 415,
  unprocessable: 422,
  rate_limited: 429,
  internal: 500,
  audit_unavailable: 500,
  invalid_config: 500,
  upstream_failure: 502,
  answer_lost: 502,
  // The specification has one status for a refusal after an approval and for an absent signer.
  signing_refused: 502,
  state_stale: 503,
  // Read only by the client of a service that is stopping.
  canceled: 503,
} as const;

/** One code of {@linkcode STATUS}. */
export type ErrorCode = keyof typeof STATUS;

/** All codes. */
export const ERROR_CODES = Object.keys(STATUS) as readonly ErrorCode[];

/**
 * A fault with a code. The message is for people and may be sent to the caller: it must not contain paths, addresses or
 * secrets of the service, unless only the operator sees it (`invalid_config`).
 */
export class AppError extends Error {
  override readonly name = "AppError";
  readonly code: ErrorCode;
  /** Seconds after which a retry can succeed, for the `Retry-After` header. */
  readonly retryAfterSeconds: number | undefined;

  /** @param options with the cause, for logs only */
  constructor(
    code: ErrorCode,
    message: string,
    { cause, retryAfterSeconds }: { readonly cause?: unknown; readonly retryAfterSeconds?: number } = {},
  ) {
    super(message, cause === undefined ? undefined : { cause });
    this.code = code;
    this.retryAfterSeconds = retryAfterSeconds;
  }
}

/** The fault of a config, or of a file that a config names. Only the operator sees it. */
export function configError(message: string, cause?: unknown): AppError {
  return new AppError("invalid_config", message, { cause });
}

/** The fault of an instance that may not know the newest state. A retry in a second can succeed. */
export function staleError(message: string, cause?: unknown): AppError {
  return new AppError("state_stale", message, { cause, retryAfterSeconds: 1 });
}

/** The specified text for an action that is withheld because its audit record could not be written. */
export const AUDIT_UNAVAILABLE = "audit unavailable";

/** The message of an error of unknown origin, or its name if the message is empty. */
export function errorText(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.message === "" ? error.name : error.message;
}

/** The name of an error without its message, which may contain paths and secrets. */
export function errorName(error: unknown): string {
  return error instanceof Error ? error.name : typeof error;
}

/** An error may be its own cause. */
const MOST_CAUSES = 8;

/** An error with its causes on one line. Use it only in the operator's log, never in responses. */
export function describeFault(error: unknown): string {
  const texts: string[] = [];
  for (let next = error; texts.length <= MOST_CAUSES; next = next.cause) {
    texts.push(errorText(next));
    if (!(next instanceof Error) || next.cause === undefined) break;
  }
  return texts.join(": ");
}
