import { isIPv6 } from "node:net";
import type { Bound, Clock } from "@gateway/shared/clock";
import { AppError } from "@gateway/shared/errors";
import { quoteText } from "@gateway/shared/text";

export const DEFAULT_LIMITS = {
  connectMs: 10_000,
  handshakeMs: 10_000,
  /** The time from opening the channel until the host confirms the start of the command. */
  channelMs: 10_000,
  commandMs: 600_000,
  /** The time to end a command by the end of its stdin. The host gives the command 2 s to obey TERM. */
  stopMs: 4_000,
  /** The time for a command to obey TERM, and then KILL. */
  killGraceMs: 1_000,
  /** The kept bytes of stdout, and of stderr, by default. */
  outputBytes: 10_485_760,
};

export type SshLimits = Readonly<typeof DEFAULT_LIMITS>;

export interface SshBounds {
  readonly clock: Clock;
  readonly limits: SshLimits;
  readonly signal?: AbortSignal | undefined;
}

/** Ends a step when its caller cancels it, or when the connection under it is lost. */
export function endedBy(
  step: "connection" | "execution",
  signal: AbortSignal | undefined,
  lost: AbortSignal | undefined,
  failure: (cause: unknown) => Error,
): Pick<Bound, "signal" | "aborted"> {
  return {
    signal: AbortSignal.any([signal, lost].filter((stop) => stop !== undefined)),
    aborted: (reason) => signal?.aborted ? canceled(step, reason) : failure(reason),
  };
}

export function canceled(step: "connection" | "execution", reason: unknown): AppError {
  return new AppError("canceled", `${step}: canceled`, { cause: reason });
}

// Agents read these texts, so they contain no address, port or text of the operating system or host. The log gets the
// details from the cause.

const CONNECTION = "connection: ";

/** sshd writes "Exceeded MaxStartups" before its identification and closes. SSH libraries drop that text. */
const CLOSED_EARLY =
  "the host closed the connection in the SSH handshake, perhaps because sshd reached MaxStartups. Retry in a few seconds. " +
  "If it repeats, ask the host's operator to raise MaxStartups or PerSourceMaxStartups";

type FailureClass =
  | "certificate refused"
  | "host key"
  | "unreachable"
  | "timeout"
  | typeof CLOSED_EARLY;

class Failure extends AppError {
  readonly failureClass: FailureClass | undefined;

  constructor(text: string, cause: unknown, failureClass: FailureClass | undefined) {
    super("upstream_failure", text, { cause });
    this.failureClass = failureClass;
  }
}

/** The class of a failure or of its causes. `undefined`: it has none. */
export function failureClassOf(error: unknown): FailureClass | undefined {
  if (!(error instanceof AppError)) return undefined;
  return (error instanceof Failure ? error.failureClass : undefined) ?? failureClassOf(error.cause);
}

export function connectionFailure(text: string, cause?: unknown, failureClass?: FailureClass): AppError {
  return new Failure(`${CONNECTION}${text}`, cause, failureClass);
}

export function executionFailure(text: string, cause?: unknown, failureClass?: FailureClass): AppError {
  return new Failure(`execution: ${text}`, cause, failureClass);
}

export function closedEarly(cause?: unknown): AppError {
  return connectionFailure(CLOSED_EARLY, cause, CLOSED_EARLY);
}

export function atAddress(
  { hostname, port }: { readonly hostname: string; readonly port: number },
  error: unknown,
): unknown {
  if (!(error instanceof AppError) || error.code !== "upstream_failure") return error;
  const address = isIPv6(hostname) ? `[${hostname}]:${port}` : `${hostname}:${port}`;
  const cause = new AppError("upstream_failure", `connecting to ${address}`, { cause: error.cause });
  return new Failure(error.message, cause, failureClassOf(error));
}

export function atBastion(name: string, error: unknown): unknown {
  if (!(error instanceof AppError) || !error.message.startsWith(CONNECTION)) return error;
  const text = `${CONNECTION}bastion ${quoteText(name)}: ${error.message.slice(CONNECTION.length)}`;
  if (error.code === "upstream_failure") return new Failure(text, error.cause, failureClassOf(error));
  return new AppError(error.code, text, { cause: error.cause });
}

const SOCKET_ERRORS: ReadonlyMap<string, readonly [string, FailureClass]> = new Map([
  ["ECONNREFUSED", ["connection refused", "unreachable"]],
  ["ECONNRESET", ["connection reset by the host", "unreachable"]],
  ["EPIPE", ["connection reset by the host", "unreachable"]],
  ["EHOSTUNREACH", ["host unreachable", "unreachable"]],
  ["ENETUNREACH", ["network unreachable", "unreachable"]],
  ["ETIMEDOUT", ["connect timeout", "timeout"]],
  ["ENOTFOUND", ["host name not found", "unreachable"]],
  ["EAI_AGAIN", ["host name not found", "unreachable"]],
]);

/** The failure of a socket, without its address. */
export function socketFailure(error: unknown): AppError {
  if (error instanceof Deno.errors.NotCapable) {
    const text = "this broker must not connect to the host's address (networks in its config)";
    return connectionFailure(text, error);
  }
  const code = error instanceof Error && "code" in error ? String(error.code) : "";
  const [text, failureClass] = SOCKET_ERRORS.get(code) ?? ["connect failed", "unreachable"];
  return connectionFailure(text, error, failureClass);
}

const FORWARD_REFUSALS: ReadonlyMap<unknown, string> = new Map([
  // RFC 4254 section 5.1
  [1, "the bastion does not permit the connection to the next host"],
  [2, "the bastion could not connect to the next host"],
]);

/** The refusal of a bastion to connect to the next host. The bastion's own text may hold the address. */
export function forwardFailure(error: unknown): AppError {
  const reason = error instanceof Error && "reason" in error ? error.reason : undefined;
  const text = FORWARD_REFUSALS.get(reason) ?? "the bastion did not connect to the next host";
  return connectionFailure(text, error, "unreachable");
}
