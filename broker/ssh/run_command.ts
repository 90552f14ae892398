import { type Bound, type Clock, within } from "@gateway/shared/clock";
import { formatDuration } from "@gateway/shared/text";
import { AppError } from "@gateway/shared/errors";
import { connectRoute, type HopLogins, type SshConnection } from "./connect.ts";
import { DEFAULT_LIMITS, endedBy, executionFailure, type SshBounds, type SshLimits } from "./failures.ts";
import { type KeptBytes, type Output, OutputBuffer } from "./output.ts";
import type { Histogram } from "@gateway/shared/service";
import { protocolOf, remoteIdOf, type Ssh2Channel, type Ssh2Client } from "./ssh2_library.ts";

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

interface RemoteCommandOptions {
  /** What is kept of stdout, and of stderr. */
  readonly output: KeptBytes;
  /** The host ends the command when its stdin ends (`stop_on_disconnect`). */
  readonly stopsAtStdinEnd: boolean;
  /** What the command reads; nothing when absent. Never together with `stopsAtStdinEnd`. */
  readonly stdin?: Uint8Array | undefined;
}

/** A command that the host has started. */
export class RemoteCommand {
  readonly stdout: OutputBuffer;
  readonly stderr: OutputBuffer;
  /** How it ended, once its channel is closed and all output is here; `undefined` when the host did not say. */
  readonly ended: Promise<RemoteExit | undefined>;
  readonly #client: Ssh2Client;
  readonly #channel: Ssh2Channel;
  readonly #stopsAtStdinEnd: boolean;

  /** Has to be called in the callback that hands out the channel, lest an early event be missed. */
  constructor(client: Ssh2Client, channel: Ssh2Channel, options: RemoteCommandOptions) {
    this.stdout = new OutputBuffer(options.output);
    this.stderr = new OutputBuffer(options.output);
    this.#client = client;
    this.#channel = channel;
    this.#stopsAtStdinEnd = options.stopsAtStdinEnd;
    this.ended = collect(channel, this.stdout, this.stderr);
    // A command that ends with its stdin has that open for as long as it may run.
    if (options.stdin !== undefined) channel.end(options.stdin);
    else if (!options.stopsAtStdinEnd) channel.end();
  }

  /**
   * Ends the command: by the end of its stdin where the host acts on that, else or if that has no effect by
   * TERM, then KILL; then the channel is closed, which hangs up a pseudo-terminal and breaks the pipes of any
   * other command.
   *
   * @returns whether the host has confirmed that the command is gone. OpenSSH obeys no signal for a command
   * that the certificate forces; one that neither reads nor writes and has no pseudo-terminal keeps running there
   */
  async terminate({ clock, limits }: SshBounds): Promise<boolean> {
    const { stopMs, killGraceMs } = limits;
    if (this.#stopsAtStdinEnd) {
      this.#channel.end();
      const exit = await this.#endedWithin(clock, stopMs);
      if (exit !== "running") return exit === "known";
    }
    for (const name of ["TERM", "KILL"]) {
      // Not channel.signal(): ssh2 sends nothing once stdin is at its end.
      protocolOf(this.#client).signal(remoteIdOf(this.#channel), name);
      const exit = await this.#endedWithin(clock, killGraceMs);
      if (exit !== "running") return exit === "known";
    }
    this.#channel.close();
    return false;
  }

  #endedWithin(clock: Clock, ms: number): Promise<"known" | "unknown" | "running"> {
    return within({ clock, ms }, this.ended)
      .then((exit) => exit === undefined ? "unknown" : "known", () => "running");
  }
}

function collect(
  channel: Ssh2Channel,
  stdout: OutputBuffer,
  stderr: OutputBuffer,
): Promise<RemoteExit | undefined> {
  let exit: RemoteExit | undefined;
  channel.on("exit", (status, signal) => {
    exit = status === null
      ? { kind: "signal", name: signal.replace(/^SIG/, "") }
      : { kind: "status", status };
  });
  channel.on("error", () => {});
  channel.stderr.on("error", () => {});
  channel.on("data", (chunk) => stdout.write(chunk));
  channel.stderr.on("data", (chunk) => stderr.write(chunk));
  const closed = new Promise<void>((resolve) => channel.once("close", resolve));
  const stderrEnded = new Promise<void>((resolve) => channel.stderr.once("end", resolve));
  return Promise.all([closed, stderrEnded]).then(() => exit);
}

/** How a remote command ended: a status, or the name of the signal that killed it, without `SIG` (RFC 4254 section 6.10). */
export type RemoteExit =
  | { readonly kind: "status"; readonly status: number }
  | { readonly kind: "signal"; readonly name: string };

const SIGNAL_NUMBERS: ReadonlyMap<string, number> = new Map([
  ["HUP", 1],
  ["INT", 2],
  ["QUIT", 3],
  ["ILL", 4],
  ["ABRT", 6],
  ["FPE", 8],
  ["KILL", 9],
  ["SEGV", 11],
  ["PIPE", 13],
  ["ALRM", 14],
  ["TERM", 15],
]);

const SIGNAL_BASE = 128;

/** The exit code as a shell would show it; a signal without a number of its own gives 128. */
export function exitCodeOf(exit: RemoteExit): number {
  switch (exit.kind) {
    case "status":
      return exit.status;
    case "signal":
      return SIGNAL_BASE + (SIGNAL_NUMBERS.get(exit.name) ?? 0);
    default:
      return exit satisfies never;
  }
}
