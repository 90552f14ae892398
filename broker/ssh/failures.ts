import { isIPv6 } from "node:net";
import { AppError } from "@gateway/shared/errors";
import { quoteText } from "@gateway/shared/text";
import type { Bound, Clock } from "@gateway/shared/clock";

// Who reads these texts is an agent: they hold no address, no port and no text of the operating system or of
// the host. What happened exactly is in the cause, for the log.

const CONNECTION = "connection: ";

/** What an agent can do something about, or tell somebody who can. */
type FailureClass =
  | "certificate refused"
  | "host key"
  | "unreachable"
  | "timeout"
  | typeof CLOSED_EARLY;

/** sshd writes "Exceeded MaxStartups" before its identification and closes. SSH libraries drop that text. */
const CLOSED_EARLY =
  "the host closed the connection in the SSH handshake, perhaps because sshd reached MaxStartups. Retry in a few seconds. " +
  "If it repeats, ask the host's operator to raise MaxStartups or PerSourceMaxStartups";

/** The host ended the connection before it showed its host key. */
export function closedEarly(cause?: unknown): AppError {
  return connectionFailure(CLOSED_EARLY, cause, CLOSED_EARLY);
}

class ClassifiedFailure extends AppError {
  readonly failureClass: FailureClass;

  constructor(text: string, cause: unknown, failureClass: FailureClass) {
    super("upstream_failure", text, { cause });
    this.failureClass = failureClass;
  }
}

/** The class of a failure, also where it is told in other words; `undefined` for none of them. */
export function failureClassOf(error: unknown): FailureClass | undefined {
  let at = error;
  while (at instanceof AppError && !(at instanceof ClassifiedFailure)) at = at.cause;
  return at instanceof ClassifiedFailure ? at.failureClass : undefined;
}

/** The connection could not be made. */
export function connectionFailure(text: string, cause?: unknown, failureClass?: FailureClass): AppError {
  return failure(`${CONNECTION}${text}`, cause, failureClass);
}

/** Says in the cause, for the log, where a connection was to lead. */
export function atAddress(
  { hostname, port }: { readonly hostname: string; readonly port: number },
  error: unknown,
): unknown {
  if (!(error instanceof AppError) || error.code !== "upstream_failure") return error;
  const address = isIPv6(hostname) ? `[${hostname}]:${port}` : `${hostname}:${port}`;
  const cause = new AppError("upstream_failure", `connecting to ${address}`, { cause: error.cause });
  return failure(error.message, cause, failureClassOf(error));
}

/** Says at which bastion a connection failed. */
export function atBastion(name: string, error: unknown): unknown {
  if (!(error instanceof AppError) || !error.message.startsWith(CONNECTION)) return error;
  const text = `${CONNECTION}bastion ${quoteText(name)}: ${error.message.slice(CONNECTION.length)}`;
  if (error.code === "upstream_failure") return failure(text, error.cause, failureClassOf(error));
  return new AppError(error.code, text, { cause: error.cause });
}

/** The command could not be run to its end. */
export function executionFailure(text: string, cause?: unknown, failureClass?: FailureClass): AppError {
  return failure(`execution: ${text}`, cause, failureClass);
}

function failure(text: string, cause: unknown, failureClass: FailureClass | undefined): AppError {
  return failureClass === undefined
    ? new AppError("upstream_failure", text, { cause })
    : new ClassifiedFailure(text, cause, failureClass);
}

/** Whoever asked for the command has taken the request back. */
export function canceled(step: "connection" | "execution", reason: unknown): AppError {
  return new AppError("canceled", `${step}: canceled`, { cause: reason });
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

/** Why a socket failed, without saying where it was to lead. */
export function socketFailure(error: unknown): AppError {
  if (error instanceof Deno.errors.NotCapable) {
    return connectionFailure(
      "host address is not among those that this broker may connect to (networks in its config)",
      error,
    );
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

/** Why a bastion did not connect to the next host; what it says itself may name the address. */
export function forwardFailure(error: unknown): AppError {
  const reason = error instanceof Error && "reason" in error ? error.reason : undefined;
  return connectionFailure(
    FORWARD_REFUSALS.get(reason) ?? "the bastion did not connect to the next host",
    error,
    "unreachable",
  );
}

/** How long each step of a remote command may take, and how much it may print. */
export interface SshLimits {
  readonly connectMs: number;
  readonly handshakeMs: number;
  /** Opening the channel, until the host says that the command has been started. */
  readonly channelMs: number;
  readonly commandMs: number;
  /** How long a host may take to end a command whose stdin has ended, where it acts on that. */
  readonly stopMs: number;
  /** How long a command may take to obey TERM, and then KILL. */
  readonly killGraceMs: number;
  /** The most that is kept of stdout, and of stderr, where nothing else is asked for. */
  readonly outputBytes: number;
}

/** What bounds the steps of one request. */
export interface SshBounds {
  readonly clock: Clock;
  readonly limits: SshLimits;
  /** Cancels, in whatever step it is. */
  readonly signal?: AbortSignal | undefined;
}

/** What ends a step early: whoever asked for it takes that back, or what it needs is lost. */
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

export const DEFAULT_LIMITS: SshLimits = {
  connectMs: 10_000,
  handshakeMs: 10_000,
  channelMs: 10_000,
  commandMs: 600_000,
  // The host gives the command 2 s to obey TERM.
  stopMs: 4_000,
  killGraceMs: 1_000,
  outputBytes: 10_485_760,
};
