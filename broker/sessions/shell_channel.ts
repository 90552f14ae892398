import { type Clock, within } from "@gateway/shared/clock";
import { formatDuration } from "@gateway/shared/text";
import type { SshConnection } from "../ssh/connect.ts";
import { endedBy, executionFailure, type SshLimits } from "../ssh/failures.ts";
import { protocolOf, remoteIdOf, type Ssh2Channel } from "../ssh/ssh2_library.ts";
import { TERMINAL } from "../ssh/run_command.ts";

/** A running shell: what goes in, and whether it is still there. */
export interface ShellChannel {
  write(text: string): void;
  /** Aborted when the shell has ended, or its connection. */
  readonly ended: AbortSignal;
  /** Of the shell; `undefined` while it runs, and when a signal or a lost connection ended it. */
  readonly exitCode: number | undefined;
  /** Sends a signal (`TERM`) to the shell and what it runs. */
  signal(name: string): void;
  /** Closes the channel, whatever the shell does. */
  close(): void;
}

/** One of a shell's output streams; a terminal has only the first. */
export type ShellStream = "stdout" | "stderr";

/** Told what the shell prints, in pieces. */
export type OnOutput = (stream: ShellStream, bytes: Uint8Array) => void;

interface ShellChannelOptions {
  readonly clock: Clock;
  readonly command: string;
  readonly pty: boolean;
  readonly limits: Pick<SshLimits, "channelMs">;
  readonly signal: AbortSignal;
  readonly onOutput: OnOutput;
}

/**
 * Starts a shell in a channel of its own.
 *
 * @throws {AppError} `upstream_failure` with a text that begins with `execution: `, or `canceled`
 */
export async function openShellChannel(
  connection: SshConnection,
  options: ShellChannelOptions,
): Promise<ShellChannel> {
  const { clock, limits: { channelMs }, signal } = options;
  // When it does not come in time, whoever opens the connection closes it, and with it a shell that comes late.
  return await within({
    clock,
    ms: channelMs,
    late: () => executionFailure(`channel open timeout (limit: ${formatDuration(channelMs)})`),
    ...endedBy(
      "execution",
      signal,
      connection.lost,
      (cause) => executionFailure("connection lost", cause),
    ),
  }, startShell(connection, options));
}

function startShell(
  connection: SshConnection,
  { command, pty, onOutput }: ShellChannelOptions,
): Promise<ShellChannel> {
  const { client } = connection;
  return new Promise<Ssh2Channel>((resolve, reject) => {
    client.exec(command, pty ? { pty: TERMINAL } : {}, (error, channel) => {
      if (error !== undefined) return reject(error);
      channel.on("data", (bytes) => onOutput("stdout", bytes));
      channel.stderr.on("data", (bytes) => onOutput("stderr", bytes));
      channel.on("error", () => {});
      channel.stderr.on("error", () => {});
      resolve(channel);
    });
  }).then((channel) => {
    const ended = new AbortController();
    let exitCode: number | undefined;
    // A background process can keep the channel open after the shell.
    channel.once("exit", (...[code]) => {
      exitCode = code ?? undefined;
      ended.abort();
    });
    channel.once("close", () => ended.abort());
    return {
      write: (text) => void channel.write(text),
      ended: AbortSignal.any([ended.signal, connection.lost]),
      get exitCode() {
        return exitCode;
      },
      signal(name) {
        if (!connection.lost.aborted) protocolOf(client).signal(remoteIdOf(channel), name);
      },
      close: () => channel.close(),
    } satisfies ShellChannel;
  }, (cause) => {
    throw executionFailure("the host refused the shell", cause);
  });
}
