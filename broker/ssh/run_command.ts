import { AppError } from "@gateway/shared/errors";
import { parseCertificateFor } from "./certificate_auth.ts";
import { connectHost, type SshConnection } from "./connect.ts";
import type { EphemeralKey } from "./ephemeral_key.ts";
import { exitCodeOf, type RemoteExit } from "./exit_status.ts";
import { canceled, executionFailure } from "./failures.ts";
import { parseHostPin } from "./host_pin.ts";
import { DEFAULT_LIMITS, formatDuration, type SshLimits } from "./limits.ts";
import { type PhaseStop, settledWithin, waitFor } from "./phase.ts";
import { RemoteCommand } from "./remote_command.ts";
import { parseHostAddress } from "./transport.ts";

/** The pseudo-terminal of a one-shot command. */
const PTY = {
  term: "xterm-256color",
  cols: 220,
  rows: 40,
  width: 0,
  height: 0,
  modes: { ECHO: 0, TTY_OP_ISPEED: 14_400, TTY_OP_OSPEED: 14_400 },
} as const;

/** One command on one host. */
export interface RunCommandOptions {
  readonly host: {
    /** `host:port` */
    readonly addr: string;
    /** The pinned host key, as a line of authorized_keys or known_hosts. */
    readonly hostKey: string;
  };
  readonly user: string;
  /** The certificate for `key`, as a line. */
  readonly certificate: string;
  readonly key: EphemeralKey;
  readonly command: string;
  readonly pty: boolean;
  /** Cancels, in whatever step it is; the remote command is ended. */
  readonly signal?: AbortSignal;
  readonly limits?: SshLimits;
}

/** What the command printed, as the host sent it, and how it ended. */
export interface CommandResult {
  readonly stdout: Uint8Array<ArrayBuffer>;
  /** Empty with a pseudo-terminal, which has one stream. */
  readonly stderr: Uint8Array<ArrayBuffer>;
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
  const { host, user, key, signal, limits = DEFAULT_LIMITS } = options;
  const connection = await connectHost({
    pin: parseHostPin(host.hostKey),
    address: parseHostAddress(host.addr),
    login: { user, key, certificate: parseCertificateFor(key, options.certificate) },
    limits,
    signal,
  });
  try {
    const command = await startCommand(connection, options, limits);
    return await finishCommand(connection, command, options, limits);
  } finally {
    await connection.close();
  }
}

async function startCommand(
  connection: SshConnection,
  { command, pty, signal }: RunCommandOptions,
  limits: SshLimits,
): Promise<RemoteCommand> {
  const refused = pty
    ? "the host refused the pseudo-terminal or the command"
    : "the host refused the command";
  const starting = new Promise<RemoteCommand>((resolve, reject) => {
    connection.client.exec(command, pty ? { pty: PTY } : {}, (error, channel) => {
      if (error === undefined) resolve(new RemoteCommand(connection.client, channel, limits.outputBytes));
      else reject(error);
    });
  }).catch((cause) => {
    throw executionFailure(refused, cause);
  });
  try {
    return await waitFor(starting, {
      milliseconds: limits.channelMs,
      onTimeout: () => executionFailure(`channel open timeout (limit: ${formatDuration(limits.channelMs)})`),
      stops: stopsOf(connection, signal),
    });
  } catch (error) {
    // The host may have started the command just before or after the wait ended.
    const late = connection.lost.aborted ? undefined : await settledWithin(starting, limits.killGraceMs);
    throw late === undefined ? error : await endCommand(connection, late, limits, error);
  }
}

async function finishCommand(
  connection: SshConnection,
  command: RemoteCommand,
  { signal }: RunCommandOptions,
  limits: SshLimits,
): Promise<CommandResult> {
  let exit: RemoteExit | undefined;
  try {
    exit = await waitFor(command.ended, {
      milliseconds: limits.commandMs,
      onTimeout: () => executionFailure(`SSH execution timeout (limit: ${formatDuration(limits.commandMs)})`),
      stops: stopsOf(connection, signal),
    });
  } catch (error) {
    throw await endCommand(connection, command, limits, error);
  }
  if (exit === undefined) throw executionFailure(NO_STATUS);
  return { stdout: command.stdout.bytes(), stderr: command.stderr.bytes(), exitCode: exitCodeOf(exit) };
}

/** Ends the command, and gives the error with what is known of the end as its cause, for the log. */
async function endCommand(
  connection: SshConnection,
  command: RemoteCommand,
  limits: SshLimits,
  error: unknown,
): Promise<unknown> {
  if (!connection.lost.aborted && await command.terminate(limits.killGraceMs)) return error;
  if (!(error instanceof AppError)) return error;
  const cause = new Error(UNCONFIRMED, { cause: error.cause });
  return new AppError(error.code, error.message, { cause });
}

const NO_STATUS = "remote command exited without exit status or exit signal";
const UNCONFIRMED = "The host has not confirmed that the remote command has ended";

function stopsOf(connection: SshConnection, signal: AbortSignal | undefined): readonly PhaseStop[] {
  return [
    { signal: connection.lost, onAbort: (cause) => executionFailure(`connection lost: ${NO_STATUS}`, cause) },
    { signal, onAbort: (reason) => canceled("execution", reason) },
  ];
}
