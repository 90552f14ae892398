/**
 * Faults: one closed list of codes and one error class. Expected outcomes, such as a denial, are values of the domain
 * and not errors.
 *
 * @module
 */

/** Every error code of a service, with its HTTP status; the names are stable. */
export const STATUS = {
  /** The request is malformed, or a field has an invalid value. Fix: correct the field that `detail` names. */
  invalid_request: 400,
  /**
   * This version or configuration cannot do what was requested. Fix: remove the field that `detail` names, or use
   * another route.
   */
  not_supported: 400,
  /**
   * The client certificate, token or password is missing, expired or revoked. Fix: renew it (`broker-ctl identity
   * renew`), or log in again.
   */
  unauthenticated: 401,
  /**
   * The caller may not use this route. Fix: add the caller to the list that `detail` names, or use another
   * certificate.
   */
  forbidden: 403,
  /**
   * The policy denied the request, or an approver did. Fix: find the rule with `broker-ctl policy explain`, and
   * change the policy or the request.
   */
  denied: 403,
  /**
   * A human has to approve, and nobody has decided within `approval_wait_seconds`. Fix: ask an approver, then repeat
   * the request.
   */
  approval_required: 403,
  /**
   * An operator has frozen the caller, the end user, the session or the certificate. Fix: after the incident, an
   * admin runs `broker-ctl unfreeze`.
   */
  frozen: 403,
  /**
   * The route or the addressed object does not exist. Fix: check the path and the ID; grants, sessions and approvals
   * expire.
   */
  not_found: 404,
  /**
   * The caller has no host or cluster of this name. Fix: list the hosts, and check the groups of the caller and of
   * the host.
   */
  unknown_host: 404,
  /** The path has no such method. Fix: use a method of the `Allow` header. */
  method_not_allowed: 405,
  /** The request did not arrive in time, or an approval expired. Fix: send the request again. */
  timeout: 408,
  /** The state does not allow the change. Fix: read the state again, and follow `detail`. */
  conflict: 409,
  /** The object existed and can no longer be used, for example a collected approval. Fix: send a new request. */
  gone: 410,
  /** The body is larger than the limit of the route. Fix: send less. */
  payload_too_large: 413,
  /** The body has another content type than the route accepts. Fix: send the type that `detail` names. */
  unsupported_media_type: 415,
  /** A field is missing, or has the wrong type. Fix: correct the field that `detail` names. */
  unprocessable: 422,
  /** The caller has sent too many requests, or too many are waiting. Fix: wait for the seconds in `Retry-After`. */
  rate_limited: 429,
  /** The service has a fault. Fix: find the request ID in the log of the service. */
  internal: 500,
  /**
   * The audit record could not be written, so the action was withheld. Fix: free disk space, or repair the audit
   * log.
   */
  audit_unavailable: 500,
  /**
   * A configuration is invalid. Fix: correct the key that the message names; `broker-ctl doctor` checks all files.
   */
  invalid_config: 500,
  /**
   * The signer, the control plane, a host or an API server could not be reached, or answered incorrectly. Fix: check
   * that system, then send the request again.
   */
  upstream_failure: 502,
  /**
   * The connection was lost before the answer arrived. Fix: brokers repeat the request and revoke the lost
   * certificate.
   */
  answer_lost: 502,
  /**
   * The signer rejected the request after its approval. Fix: check the policy, and `trusted_forwarders` of the
   * signer.
   */
  // The specification has the same status for an absent signer.
  signing_refused: 502,
  /**
   * This instance may not know the newest freezes, approvals or policy. Fix: send the request again after a second;
   * if the code repeats, check the database.
   */
  state_stale: 503,
  /** The service is stopping or full, or the client has disconnected. Fix: send the request again. */
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

/** The message of an error of any type, or its name if the message is empty. */
export function errorText(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.message === "" ? error.name : error.message;
}

/** The name of an error without its message, which may contain paths and secrets. */
export function errorName(error: unknown): string {
  return error instanceof Error ? error.name : typeof error;
}

/** The maximum number of causes to follow, because an error may be its own cause. */
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
