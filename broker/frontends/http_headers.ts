import { AppError } from "@gateway/shared/errors";
import {
  localhostAllowedHostnames,
  validateHostHeader,
  validateOriginHeader,
} from "@modelcontextprotocol/server";

/**
 * The host names under which a browser or a client may know the server: that of its URL, and those of loopback.
 */
export function allowedHostnames(resourceUrl: string): string[] {
  return [new URL(resourceUrl).hostname, ...localhostAllowedHostnames()];
}

/**
 * Refuses requests for another host: a page whose own name has been made to point here (DNS rebinding).
 *
 * @throws {AppError} `forbidden`
 */
export function checkHost(headers: Headers, allowed: string[]): void {
  if (!validateHostHeader(headers.get("host"), allowed).ok) {
    throw new AppError("forbidden", "Forbidden: invalid Host header");
  }
}

/**
 * Refuses requests from the page of another host; programs send no `Origin`.
 *
 * @throws {AppError} `forbidden`
 */
export function checkOrigin(headers: Headers, allowed: string[]): void {
  if (!validateOriginHeader(headers.get("origin"), allowed).ok) {
    throw new AppError("forbidden", "Forbidden: invalid Origin header");
  }
}

/** Whether an `Accept` header allows all of these media types (RFC 9110 section 12.5.1). */
export function accepts(header: string | null, types: readonly string[]): boolean {
  const ranges = (header ?? "").split(",").map((range) => range.split(";", 1)[0]?.trim().toLowerCase());
  return types.every((type) =>
    [type, `${type.split("/", 1)[0]}/*`, "*/*"].some((range) => ranges.includes(range))
  );
}

/** The first protocol revision without batches. */
const WITHOUT_BATCHES = "2025-06-18";

/**
 * Refuses several messages in one body where the protocol knows none.
 *
 * @throws {AppError} `invalid_request`
 */
export function checkBatch(headers: Headers, body: unknown): void {
  const version = headers.get("mcp-protocol-version");
  if (Array.isArray(body) && version !== null && version >= WITHOUT_BATCHES) {
    throw new AppError("invalid_request", `protocol version ${WITHOUT_BATCHES} and later know no batches`);
  }
}
