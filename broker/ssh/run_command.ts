import { type Clock, within } from "@gateway/shared/clock";
import { AppError } from "@gateway/shared/errors";
import type { Histogram } from "@gateway/shared/service";
import { formatDuration } from "@gateway/shared/text";
import { connectRoute, type HopLogins, type SshConnection } from "./connect.ts";
import { DEFAULT_LIMITS, endedBy, executionFailure, type SshBounds, type SshLimits } from "./failures.ts";
import { type KeptBytes, type Output, OutputBuffer } from "./output.ts";
import { protocolOf, remoteIdOf, type Ssh2Channel, type Ssh2Client } from "./ssh2_library.ts";

interface CommandOptions {
  readonly clock: Clock;
  readonly command: string;
  readonly pty: boolean;
  readonly stdin?: Uint8Array | undefined;
  /** The host ends the command when its stdin ends (`stop_on_disconnect`). Never with a terminal or with `stdin`. */
  readonly stopsAtStdinEnd?: boolean;
  readonly signal?: AbortSignal;
  readonly limits?: SshLimits;
  readonly output?: KeptBytes | undefined;
}

export interface SshTimings {
  /** The time from the first byte to the login, through all bastions. */
  readonly connect: Histogram;
  readonly exec: Histogram;
}

export interface RunCommandOptions extends CommandOptions {
  readonly hops: HopLogins;
  readonly timings?: SshTimings;
}

export interface CommandResult {
  readonly stdout: Output;
  /** Empty with a pseudo-terminal, which has one stream. */
  readonly stderr: Output;
  readonly exitCode: number;
}

const TERMINAL = {
  term: "xterm-256color",
  cols: 220,
  rows: 40,
  width: 0,
  height: 0,
  modes: { ECHO: 0, TTY_OP_ISPEED: 14_400, TTY_OP_OSPEED: 14_400 },
} as const;

/**
 * Connects, runs one command and closes the connection. Every step has its own time limit.
 * @throws {AppError} `upstream_failure` with a text that begins with `connection: ` or `execution: `, or
 * `canceled` when the signal is aborted. In both cases the broker has sent the remote command a signal to end
 */
export async function runCommand(options: RunCommandOptions): Promise<CommandResult> {
  const { hops, clock, signal, limits = DEFAULT_LIMITS, timings } = options;
  const connect = () => connectRoute(hops, { clock, limits, signal });
  const connection = await (timings?.connect.measure(connect) ?? connect());
  try {
    const run = () => runOn(connection, options);
    return await (timings?.exec.measure(run) ?? run());
  } finally {
    await connection.close();
  }
}

/**
 * Runs one command in its own channel on an open connection, which stays open. Commands can run concurrently.
 * @throws {AppError} `upstream_failure` with a text that begins with `execution: `, or `canceled` when the signal
 * is aborted. In both cases the broker has sent the remote command a signal to end
 */
export async function runOn(connection: SshConnection, options: CommandOptions): Promise<CommandResult> {
  const { clock, signal, limits = DEFAULT_LIMITS } = options;
  const bound = (ms: number, what: string) => ({
    clock,
    ms,
    late: () => executionFailure(`${what} timeout (limit: ${formatDuration(ms)})`, undefined, "timeout"),
    ...endedBy(
      "execution",
      signal,
      connection.lost,
      (cause) => executionFailure(`connection lost: ${NO_STATUS}`, cause),
    ),
  });
  const starting = startCommand(connection, options, limits);
  let command: RemoteCommand;
  try {
    command = await within(bound(limits.channelMs, "channel open"), starting);
  } catch (error) {
    if (connection.lost.aborted) throw error;
    // The host may have started the command at the end of the wait. On a connection that stays open, it can
    // also start the command later, when nothing waits for it any more.
    const release = (command: RemoteCommand) => command.terminate({ clock, limits });
    const late = await within({ clock, ms: limits.killGraceMs, release }, starting).catch(() => undefined);
    throw late === undefined ? error : await endCommand(connection, late, { options, error });
  }
  let exitCode: number | undefined;
  try {
    exitCode = await within(bound(limits.commandMs, "SSH execution"), command.ended);
  } catch (error) {
    throw await endCommand(connection, command, { options, error });
  }
  if (exitCode === undefined) throw executionFailure(NO_STATUS);
  return { stdout: command.stdout.output(), stderr: command.stderr.output(), exitCode };
}

function startCommand(
  { client }: SshConnection,
  options: CommandOptions,
  { outputBytes }: SshLimits,
): Promise<RemoteCommand> {
  const { command, pty, output = { headBytes: outputBytes, tailBytes: 0 } } = options;
  const what = pty ? "the pseudo-terminal or the command" : "the command";
  return startChannel(
    client,
    { command, pty, what },
    (channel) => attach(client, channel, { ...options, output }),
  );
}

/**
 * Starts a program in a new channel.
 * @param attach called in the callback that gets the channel, or early events would be lost
 * @throws {AppError} `upstream_failure`
 */
export function startChannel<T>(
  client: Ssh2Client,
  { command, pty, what }: { readonly command: string; readonly pty: boolean; readonly what: string },
  attach: (channel: Ssh2Channel) => T,
): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    client.exec(command, pty ? { pty: TERMINAL } : {}, (error, channel) => {
      if (error !== undefined) return reject(error);
      channel.on("error", () => {});
      channel.stderr.on("error", () => {});
      resolve(attach(channel));
    });
  }).catch((cause) => {
    throw executionFailure(`the host refused ${what}`, cause);
  });
}

/** Ends the command. If the host does not confirm the end, the error's cause reports this to the log. */
async function endCommand(
  connection: SshConnection,
  command: RemoteCommand,
  { options: { clock, stopsAtStdinEnd, limits = DEFAULT_LIMITS }, error }: {
    readonly options: CommandOptions;
    readonly error: unknown;
  },
): Promise<unknown> {
  if (!connection.lost.aborted && await command.terminate({ clock, limits })) return error;
  if (!(error instanceof AppError)) return error;
  const cause = new Error(stopsAtStdinEnd ? UNCONFIRMED : MAY_RUN_ON, { cause: error.cause });
  return new AppError(error.code, error.message, { cause });
}

const NO_STATUS = "remote command exited without exit status or exit signal";
const UNCONFIRMED = "The host has not confirmed that the remote command has ended";
const MAY_RUN_ON =
  `${UNCONFIRMED} and may still run; with stop_on_disconnect in the signer's policy of this host, commands end ` +
  "with their connection";

type RemoteCommand = ReturnType<typeof attach>;

function attach(
  client: Ssh2Client,
  channel: Ssh2Channel,
  { output, stopsAtStdinEnd = false, stdin }: CommandOptions & { readonly output: KeptBytes },
) {
  const stdout = new OutputBuffer(output);
  const stderr = new OutputBuffer(output);
  let exitCode: number | undefined;
  channel.on("exit", (status, signal) => {
    exitCode = exitCodeOf(status, signal);
  });
  channel.on("data", (chunk) => stdout.write(chunk));
  channel.stderr.on("data", (chunk) => stderr.write(chunk));
  const closed = new Promise<void>((resolve) => channel.once("close", resolve));
  const stderrEnded = new Promise<void>((resolve) => channel.stderr.once("end", resolve));
  // Resolves with `undefined` if the host does not report the end.
  const ended = Promise.all([closed, stderrEnded]).then(() => exitCode);
  // A command that ends with its stdin keeps it open for as long as it may run.
  if (stdin !== undefined) channel.end(stdin);
  else if (!stopsAtStdinEnd) channel.end();

  /**
   * Ends the command: by the end of its stdin if the host acts on that, then by TERM, then by KILL. Finally
   * the channel is closed, which hangs up a pseudo-terminal and breaks the pipes of any other command.
   * @returns whether the host has confirmed the end. OpenSSH obeys no signal for a command that the
   * certificate forces: without a pseudo-terminal, such a command runs on if it neither reads nor writes
   */
  async function terminate({ clock, limits: { stopMs, killGraceMs } }: SshBounds): Promise<boolean> {
    const endedWithin = (ms: number) =>
      within({ clock, ms }, ended).then((code) => code === undefined ? "unknown" : "known", () => "running");
    if (stopsAtStdinEnd) {
      channel.end();
      const end = await endedWithin(stopMs);
      if (end !== "running") return end === "known";
    }
    for (const name of ["TERM", "KILL"]) {
      // channel.signal() is not used, because ssh2 then sends nothing after the end of stdin.
      protocolOf(client).signal(remoteIdOf(channel), name);
      const end = await endedWithin(killGraceMs);
      if (end !== "running") return end === "known";
    }
    channel.close();
    return false;
  }
  return { stdout, stderr, ended, terminate };
}

const SIGNAL_NUMBERS: ReadonlyMap<string, number> = new Map(
  Object.entries({
    HUP: 1,
    INT: 2,
    QUIT: 3,
    ILL: 4,
    ABRT: 6,
    FPE: 8,
    KILL: 9,
    SEGV: 11,
    PIPE: 13,
    ALRM: 14,
    TERM: 15,
  }),
);

/** The exit code as a shell shows it. A signal without a number gives 128. */
export function exitCodeOf(status: number | null, signal = ""): number {
  return status ?? 128 + (SIGNAL_NUMBERS.get(signal.replace(/^SIG/, "")) ?? 0);
}
