/**
 * The one place where a fault becomes an HTTP answer, and an answer a fault again: RFC 9457
 * `application/problem+json`, with a stable `code` for programs and a `detail` for people.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { AppError } from "@gateway/shared/errors";
 * import { problemResponse, readProblem } from "@gateway/shared/http";
 *
 * const response = problemResponse(new AppError("unknown_host", 'Cannot freeze host "web1": unknown host'));
 * assert.equal(response.status, 404);
 * const { status } = response;
 * const text = await response.text();
 * assert.equal(readProblem({ status, text, body: JSON.parse(text) }).code, "unknown_host");
 * ```
 *
 * @module
 */
import { AppError, ERROR_CODES, type ErrorCode } from "../errors.ts";
import { stringifyJson } from "../json.ts";
import { currentRequestId } from "../service/request_context.ts";
import { shortenText } from "../text.ts";

/** The HTTP status of every error code. */
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
  // It may have been carried out: whoever wants it asks anew, for another key.
  answer_lost: 502,
  // After an approval: the specification has one status for this and for a signer that is away.
  signing_refused: 502,
  // What other instances decide is not known here for the moment: another instance may answer.
  state_stale: 503,
  // Whoever cancelled has gone; the one who still reads this is the client of a service that is stopping.
  canceled: 503,
} as const satisfies Record<ErrorCode, number>;

/** A status that a fault can have. */
type Status = (typeof STATUS)[ErrorCode];

/** With `type` `about:blank` the title is the status phrase (RFC 9457 section 4.2.1). */
const TITLE: Readonly<Record<Status, string>> = {
  400: "Bad Request",
  401: "Unauthorized",
  403: "Forbidden",
  404: "Not Found",
  405: "Method Not Allowed",
  408: "Request Timeout",
  409: "Conflict",
  410: "Gone",
  413: "Content Too Large",
  415: "Unsupported Media Type",
  422: "Unprocessable Content",
  429: "Too Many Requests",
  500: "Internal Server Error",
  502: "Bad Gateway",
  503: "Service Unavailable",
};

/** The body of an error answer. */
export interface Problem {
  /** RFC 9457 section 4.2.1: the status says what kind of problem it is. */
  readonly type: "about:blank";
  /** The reason phrase of the status. */
  readonly title: string;
  /** The HTTP status. */
  readonly status: Status;
  readonly detail: string;
  readonly code: ErrorCode;
  /** Names the request in the log, in audit records, and where it was passed on to. */
  readonly request_id?: string;
}

/** What {@linkcode problemResponse} cannot know from the error. */
interface ProblemOptions {
  /** By default that of the request that is being answered. */
  readonly requestId?: string;
  /** The methods that the path has, for `method_not_allowed`: becomes the `Allow` header. */
  readonly allow?: readonly string[];
}

const INTERNAL_DETAIL = "The request failed because of a fault inside the service";

/** Describes a fault; what is not an {@linkcode AppError} gets code `internal` and a fixed text. */
export function describeProblem(error: unknown, options: ProblemOptions = {}): Problem {
  const code = error instanceof AppError ? error.code : "internal";
  const requestId = options.requestId ?? currentRequestId();
  const status = STATUS[code];
  return {
    type: "about:blank",
    title: TITLE[status],
    status,
    detail: error instanceof AppError ? error.message : INTERNAL_DETAIL,
    code,
    ...(requestId === undefined ? {} : { request_id: requestId }),
  };
}

/** The answer for a fault. Nothing of an error that is not an {@linkcode AppError} is in it, and no cause ever. */
export function problemResponse(error: unknown, options: ProblemOptions = {}): Response {
  const problem = describeProblem(error, options);
  const headers: Record<string, string> = {
    "content-type": "application/problem+json",
    "x-content-type-options": "nosniff",
    "cache-control": "no-store",
  };
  if (error instanceof AppError && error.retryAfterSeconds !== undefined) {
    headers["retry-after"] = String(Math.max(1, Math.ceil(error.retryAfterSeconds)));
  }
  if (problem.status === 405) headers["allow"] = (options.allow ?? []).join(", ");
  const response = new Response(`${stringifyJson(problem)}\n`, { status: problem.status, headers });
  CODES.set(response, problem.code);
  return response;
}

/** Of the answers that were made here. */
const CODES = new WeakMap<Response, ErrorCode>();

/** The code of the fault that an answer of this service tells of; `undefined` for every other answer. */
export function codeOf(response: Response): ErrorCode | undefined {
  return CODES.get(response);
}

/** An answer that is not the one hoped for. */
export interface ErrorReply {
  /** The HTTP status. */
  readonly status: number;
  /** The parsed JSON, `undefined` when it is not JSON. */
  readonly body: unknown;
  readonly text: string;
}

/** What an answer says is wrong. */
interface ReadProblem {
  /** For people; never empty. */
  readonly detail: string;
  /** One of ours, `undefined` when the answer names none, or one that has another status here. */
  readonly code: ErrorCode | undefined;
}

/** As much of an answer as is repeated, in UTF-16 units. */
const MAX_DETAIL = 1000;

/** Reads what an answer says is wrong; of one that is not a problem document the whole text is what it says. */
export function readProblem({ status, body, text }: ErrorReply): ReadProblem {
  const problem: Partial<Record<keyof Problem, unknown>> = typeof body === "object" && body !== null
    ? body
    : {};
  const detail = (typeof problem.detail === "string" ? problem.detail : text).trim() || "no reason given";
  return {
    detail: shortenText(detail, MAX_DETAIL),
    code: ERROR_CODES.find((code) => code === problem.code && STATUS[code] === status),
  };
}
