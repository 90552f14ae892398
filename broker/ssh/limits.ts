import type { Bound, Clock } from "@gateway/shared/clock";
import { canceled } from "./failures.ts";

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
