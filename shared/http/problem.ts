/**
 * Errors as HTTP responses, and back: RFC 9457 `application/problem+json`, with a stable `code` for programs and a
 * `detail` for people. Entity tags (RFC 9110 section 8.8.3).
 *
 * @module
 */
import { createHash } from "node:crypto";
import { STATUS_CODES } from "node:http";
import { AppError, ERROR_CODES, type ErrorCode, STATUS } from "../errors.ts";
import { isObject, type JsonObject, stringifyJson } from "../json.ts";
import { currentRequestId } from "../service/mod.ts";
import { shortenText } from "../text.ts";

/**
 * RFC 9457 section 4.2.1: with type `about:blank`, the title is the status phrase. The runtime has two
 * phrases from before RFC 9110.
 */
const TITLE: Readonly<Record<number, string | undefined>> = {
  ...STATUS_CODES,
  413: "Content Too Large",
  422: "Unprocessable Content",
};

/** The body of an error response. */
export interface Problem {
  readonly type: "about:blank";
  readonly title: string;
  readonly status: (typeof STATUS)[ErrorCode];
  readonly detail: string;
  readonly code: ErrorCode;
  /** The id of the request in logs, audit records and other services. */
  readonly request_id?: string;
}

/** By default with the id of the current request. `allow` lists the methods for `method_not_allowed`. */
interface ProblemOptions {
  readonly requestId?: string;
  readonly allow?: readonly string[];
}

/** Describes an error. An error other than {@linkcode AppError} gets code `internal` and a fixed text. */
export function describeProblem(error: unknown, options: ProblemOptions = {}): Problem {
  const code = error instanceof AppError ? error.code : "internal";
  const requestId = options.requestId ?? currentRequestId();
  const status = STATUS[code];
  return {
    type: "about:blank",
    title: TITLE[status] ?? "",
    status,
    detail: error instanceof AppError
      ? error.message
      : "The request failed because of a fault inside the service",
    code,
    ...(requestId === undefined ? {} : { request_id: requestId }),
  };
}

/** The response for an error. It holds no cause, and nothing of an error other than {@linkcode AppError}. */
export function problemResponse(error: unknown, options: ProblemOptions = {}): Response {
  const problem = describeProblem(error, options);
  const { status, code } = problem;
  const headers: Record<string, string> = {
    "content-type": "application/problem+json",
    "x-content-type-options": "nosniff",
    "cache-control": "no-store",
  };
  if (error instanceof AppError && error.retryAfterSeconds !== undefined) {
    headers["retry-after"] = String(Math.max(1, Math.ceil(error.retryAfterSeconds)));
  }
  if (status === 405) headers["allow"] = (options.allow ?? []).join(", ");
  const response = new Response(`${stringifyJson(problem)}\n`, { status, headers });
  CODES.set(response, code);
  return response;
}

const CODES = new WeakMap<Response, ErrorCode>();

/** The code of a response that {@linkcode problemResponse} made. */
export function codeOf(response: Response): ErrorCode | undefined {
  return CODES.get(response);
}

/** An error answer of another service. `body` is `undefined` if it is not JSON. */
export interface ErrorReply {
  readonly status: number;
  readonly body: unknown;
  readonly text: string;
}

/** The maximum length of a detail, in UTF-16 units. */
const MAX_DETAIL = 1000;

/**
 * Reads an error answer: a detail, which is the whole text if the answer is not a problem document, and the code if
 * this system has it with the same status.
 */
export function readProblem(
  { status, body, text }: ErrorReply,
): { readonly detail: string; readonly code: ErrorCode | undefined } {
  const { detail, code }: JsonObject = isObject(body) ? body : {};
  return {
    detail: shortenText((typeof detail === "string" ? detail : text).trim() || "no reason given", MAX_DETAIL),
    code: ERROR_CODES.find((known) => known === code && STATUS[known] === status),
  };
}

// The RFC also allows tabs and non-ASCII characters. They are rejected here, because the value is passed on
// as a plain header.
const TAG = /^"[\x21\x23-\x7e]{1,128}"$/;
const LIST = /^(?:\*|(?:W\/)?"[\x21\x23-\x7e]*"(?: *, *(?:W\/)?"[\x21\x23-\x7e]*")*)$/;
const MEMBERS = /"[\x21\x23-\x7e]*"/g;

/** The entity tag of a text, quotes included: the SHA-256 of its UTF-8. */
export function entityTagOf(text: string): string {
  return `"${createHash("sha256").update(text).digest("base64url")}"`;
}

/** Whether a header value is one strong entity tag of bounded length. */
export function isStrongEntityTag(value: string | undefined): value is string {
  return value !== undefined && TAG.test(value);
}

/** An `If-None-Match` header that can be passed on; `undefined` if it is malformed. */
export function readIfNoneMatch(value: string | null): string | undefined {
  return value !== null && LIST.test(value) ? value : undefined;
}

/** Whether an `If-None-Match` header contains the tag. */
export function namesEntityTag(ifNoneMatch: string | null, tag: string): boolean {
  const list = readIfNoneMatch(ifNoneMatch);
  return list === "*" || list?.match(MEMBERS)?.includes(tag) === true;
}
