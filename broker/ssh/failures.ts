import { AppError } from "@gateway/shared/errors";

// Who reads these texts is an agent: they hold no address, no port and no text of the operating system or of
// the host. What happened exactly is in the cause, for the log.

/** The connection could not be made. */
export function connectionFailure(text: string, cause?: unknown): AppError {
  return new AppError("upstream_failure", `connection: ${text}`, { cause });
}

/** The command could not be run to its end. */
export function executionFailure(text: string, cause?: unknown): AppError {
  return new AppError("upstream_failure", `execution: ${text}`, { cause });
}

/** Whoever asked for the command has taken the request back. */
export function canceled(step: "connection" | "execution", reason: unknown): AppError {
  return new AppError("canceled", `${step}: canceled`, { cause: reason });
}

const SOCKET_ERRORS: ReadonlyMap<string, string> = new Map([
  ["ECONNREFUSED", "connection refused"],
  ["ECONNRESET", "connection reset by the host"],
  ["EPIPE", "connection reset by the host"],
  ["EHOSTUNREACH", "host unreachable"],
  ["ENETUNREACH", "network unreachable"],
  ["ETIMEDOUT", "connect timeout"],
  ["ENOTFOUND", "host name not found"],
  ["EAI_AGAIN", "host name not found"],
]);

/** Why a socket failed, without saying where it was to lead. */
export function socketFailure(error: unknown): AppError {
  if (error instanceof Deno.errors.NotCapable) {
    return connectionFailure("host address is not among those that this broker may connect to", error);
  }
  const code = error instanceof Error && "code" in error ? String(error.code) : "";
  return connectionFailure(SOCKET_ERRORS.get(code) ?? "connect failed", error);
}
