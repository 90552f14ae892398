import { type Bound, type Clock, within } from "@gateway/shared/clock";
import { formatDuration } from "@gateway/shared/text";
import { AppError } from "@gateway/shared/errors";
import { connectRoute, type HopLogins } from "./connect.ts";
import type { SshConnection } from "./transport.ts";
import { exitCodeOf, RemoteCommand, type RemoteExit } from "./remote_command.ts";
import { executionFailure } from "./failures.ts";
import { DEFAULT_LIMITS, endedBy, type SshLimits } from "./limits.ts";
import type { KeptBytes, Output } from "./output_buffer.ts";
import type { Histogram } from "@gateway/shared/service";

/** One command on an open connection. */
interface CommandOptions {
  readonly clock: Clock;
  readonly command: string;
  readonly pty: boolean;
  /** What the command reads; absent: nothing. */
  readonly stdin?: Uint8Array;
  /** The host ends the command when its stdin ends (`stop_on_disconnect`); never with a terminal or with `stdin`. */
  readonly stopsAtStdinEnd?: boolean;
  /** Cancels, in whatever step it is; the remote command is ended. */
  readonly signal?: AbortSignal;
  readonly limits?: SshLimits;
  /** What is kept of each stream; absent: the first bytes, as many as the limits say. */
  readonly output?: KeptBytes;
}

/** One command on one host, over a connection of its own. */
export interface RunCommandOptions extends CommandOptions {
  readonly hops: HopLogins;
  /** Where it is measured, if anywhere. */
  readonly timings?: SshTimings;
}

/** What the command printed, as the host sent it, and how it ended. */
export interface CommandResult {
  readonly stdout: Output;
  /** Empty with a pseudo-terminal, which has one stream. */
  readonly stderr: Output;
  /** 128 + n when signal n killed the command. */
  readonly exitCode: number;
}

/**
 * Connects, runs one command and closes the connection. Every step has its own time limit.
 *
 * @throws {AppError} `upstream_failure` with a text that begins with `connection: ` or `execution: `, or
 * `canceled` when the signal is aborted; in both cases the remote command has been told to end
 */
export async function runCommand(options: RunCommandOptions): Promise<CommandResult> {
  const { hops, clock, signal, limits = DEFAULT_LIMITS, timings } = options;
  const connect = () => connectRoute(hops, { clock, limits, signal });
  const connection = await (timings === undefined ? connect() : timings.connect.measure(connect));
  try {
    const run = () => runOn(connection, options);
    return await (timings === undefined ? run() : timings.exec.measure(run));
  } finally {
    await connection.close();
  }
}

/**
 * Runs one command in a channel of its own on an open connection, which stays open. Several can run at once.
 *
 * @throws {AppError} `upstream_failure` with a text that begins with `execution: `, or `canceled` when the signal
 * is aborted; in both cases the remote command has been told to end
 */
export async function runOn(connection: SshConnection, options: CommandOptions): Promise<CommandResult> {
  const { limits = DEFAULT_LIMITS } = options;
  const command = await startCommand(connection, options, limits);
  return await finishCommand(connection, command, options, limits);
}

async function startCommand(
  connection: SshConnection,
  options: CommandOptions,
  limits: SshLimits,
): Promise<RemoteCommand> {
  const { clock, command, pty, stdin, signal, stopsAtStdinEnd = false } = options;
  const { output = { headBytes: limits.outputBytes, tailBytes: 0 } } = options;
  const refused = pty
    ? "the host refused the pseudo-terminal or the command"
    : "the host refused the command";
  const starting = new Promise<RemoteCommand>((resolve, reject) => {
    connection.client.exec(command, pty ? { pty: TERMINAL } : {}, (error, channel) => {
      if (error !== undefined) return reject(error);
      resolve(new RemoteCommand(connection.client, channel, { output, stopsAtStdinEnd, stdin }));
    });
  }).catch((cause) => {
    throw executionFailure(refused, cause);
  });
  try {
    return await within({
      clock,
      ms: limits.channelMs,
      late: () =>
        executionFailure(
          `channel open timeout (limit: ${formatDuration(limits.channelMs)})`,
          undefined,
          "timeout",
        ),
      ...stopsOf(connection, signal),
    }, starting);
  } catch (error) {
    if (connection.lost.aborted) throw error;
    // The host may have started the command just before or after the wait ended. On a connection that stays open
    // it can still start, with nobody left to wait for it.
    const release = (command: RemoteCommand) => command.terminate({ clock, limits });
    const late = await within({ clock, ms: limits.killGraceMs, release }, starting).catch(() => undefined);
    throw late === undefined ? error : await endCommand(connection, late, options, error);
  }
}

async function finishCommand(
  connection: SshConnection,
  command: RemoteCommand,
  options: CommandOptions,
  limits: SshLimits,
): Promise<CommandResult> {
  const { clock, signal } = options;
  let exit: RemoteExit | undefined;
  try {
    exit = await within({
      clock,
      ms: limits.commandMs,
      late: () =>
        executionFailure(
          `SSH execution timeout (limit: ${formatDuration(limits.commandMs)})`,
          undefined,
          "timeout",
        ),
      ...stopsOf(connection, signal),
    }, command.ended);
  } catch (error) {
    throw await endCommand(connection, command, options, error);
  }
  if (exit === undefined) throw executionFailure(NO_STATUS);
  return { stdout: command.stdout.output(), stderr: command.stderr.output(), exitCode: exitCodeOf(exit) };
}

/** Ends the command, and gives the error with what is known of the end as its cause, for the log. */
async function endCommand(
  connection: SshConnection,
  command: RemoteCommand,
  { clock, stopsAtStdinEnd, limits = DEFAULT_LIMITS }: CommandOptions,
  error: unknown,
): Promise<unknown> {
  if (!connection.lost.aborted && await command.terminate({ clock, limits })) return error;
  if (!(error instanceof AppError)) return error;
  const cause = new Error(stopsAtStdinEnd ? UNCONFIRMED : MAY_RUN_ON, { cause: error.cause });
  return new AppError(error.code, error.message, { cause });
}

const NO_STATUS = "remote command exited without exit status or exit signal";
const UNCONFIRMED = "The host has not confirmed that the remote command has ended";
const MAY_RUN_ON =
  `${UNCONFIRMED}: it may run on; stop_on_disconnect in the signer's policy of this host ends ` +
  "commands with their connection";

function stopsOf(
  { lost }: SshConnection,
  signal: AbortSignal | undefined,
): Pick<Bound, "signal" | "aborted"> {
  const failure = (cause: unknown) => executionFailure(`connection lost: ${NO_STATUS}`, cause);
  return endedBy("execution", signal, lost, failure);
}

export interface SshTimings {
  /** From the first byte until the login, through all bastions. */
  readonly connect: Histogram;
  readonly exec: Histogram;
}

/** The pseudo-terminal that the broker asks for. */
export const TERMINAL = {
  term: "xterm-256color",
  cols: 220,
  rows: 40,
  width: 0,
  height: 0,
  modes: { ECHO: 0, TTY_OP_ISPEED: 14_400, TTY_OP_OSPEED: 14_400 },
} as const;
