import { AppError } from "@gateway/shared/errors";
import { quoteText } from "@gateway/shared/quote";

// Who reads these texts is an agent: they hold no address, no port and no text of the operating system or of
// the host. What happened exactly is in the cause, for the log.

const CONNECTION = "connection: ";

/** The connection could not be made. */
export function connectionFailure(text: string, cause?: unknown): AppError {
  return new AppError("upstream_failure", `${CONNECTION}${text}`, { cause });
}

/** Says at which bastion a connection failed. */
export function atBastion(name: string, error: unknown): unknown {
  if (!(error instanceof AppError) || !error.message.startsWith(CONNECTION)) return error;
  const text = `${CONNECTION}bastion ${quoteText(name)}: ${error.message.slice(CONNECTION.length)}`;
  return new AppError(error.code, text, { cause: error.cause });
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

const FORWARD_REFUSALS: ReadonlyMap<unknown, string> = new Map([
  // RFC 4254 section 5.1
  [1, "the bastion does not permit the connection to the next host"],
  [2, "the bastion could not connect to the next host"],
]);

/** Why a bastion did not connect to the next host; what it says itself may name the address. */
export function forwardFailure(error: unknown): AppError {
  const reason = error instanceof Error && "reason" in error ? error.reason : undefined;
  return connectionFailure(
    FORWARD_REFUSALS.get(reason) ?? "the bastion did not connect to the next host",
    error,
  );
}
