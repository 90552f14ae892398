import { type Clock, type Random, within } from "@gateway/shared/clock";
import { formatDuration } from "@gateway/shared/text";
import type { SessionMode } from "@gateway/shared/wire";
import { canceled, DEFAULT_LIMITS, endedBy, executionFailure, type SshLimits } from "../ssh/failures.ts";
import { type CommandResult, runOn, type SshTimings, startChannel } from "../ssh/run_command.ts";
import { protocolOf, remoteIdOf } from "../ssh/ssh2_library.ts";
import { connectRoute, type HopLogins, type SshConnection } from "../ssh/connect.ts";
import type { LinkRunOptions, SessionLink } from "./session.ts";
import {
  createFrame,
  encodeCommand,
  encodeStart,
  FramedRun,
  LEFT_LOOP,
  type ShellStream,
} from "./shell_protocol.ts";

export interface ConnectSessionOptions {
  readonly hops: HopLogins;
  readonly mode: SessionMode;
  readonly elevationPrefix: string;
  readonly signal: AbortSignal;
}

/** @throws {AppError} `upstream_failure` or `canceled`; nothing is left open then */
export type ConnectSession = (options: ConnectSessionOptions) => Promise<SessionLink>;

export function createConnectSession({ clock, random, timings }: {
  readonly clock: Clock;
  readonly random: Random;
  readonly timings: SshTimings;
}): ConnectSession {
  return async ({ hops, mode, elevationPrefix, signal }) => {
    const connection = await timings.connect.measure(() =>
      connectRoute(hops, { clock, limits: DEFAULT_LIMITS, signal })
    );
    try {
      const command = elevationPrefix === "" ? "/bin/sh" : `${elevationPrefix} -- /bin/sh`;
      const limits = { ...DEFAULT_LIMITS, ...SHELL_LIMITS };
      const link = mode === "exec" ? createExecLink(connection, clock) : await ShellLink.start({
        ...{ mode, clock, random, limits },
        open: (onOutput, signal) =>
          openShellChannel(connection, { clock, command, pty: mode === "pty", signal, onOutput }),
        close: () => connection.close(),
      }, signal);
      return {
        get broken() {
          return link.broken;
        },
        run: (command, options) => timings.exec.measure(() => link.run(command, options)),
        close: () => link.close(),
      };
    } catch (error) {
      await connection.close();
      throw error;
    }
  };
}

/** The mode `exec`: each command in its own channel. Nothing is recorded, and commands may overlap. */
export function createExecLink(connection: SshConnection, clock: Clock): SessionLink {
  return {
    get broken() {
      return connection.lost.aborted
        ? "the connection of this session is lost; close this session and open a new one"
        : undefined;
    },
    run: (command, { signal, stopsAtStdinEnd = false, output }) =>
      runOn(connection, {
        ...{ clock, command, pty: false, signal, stopsAtStdinEnd },
        ...(output === undefined ? {} : { output }),
      }),
    async close() {
      // Send the signals of commands that have just been canceled first.
      await clock.sleep(0);
      await connection.close();
    },
  };
}

export interface ShellChannel {
  write(text: string): void;
  readonly ended: AbortSignal;
  /** `undefined` while the shell runs, and after a signal or a lost connection ended it. */
  readonly exitCode: number | undefined;
  signal(name: string): void;
  close(): void;
}

export type OnOutput = (stream: ShellStream, bytes: Uint8Array) => void;

/** Starts a shell in a new channel. After a failure the caller closes the connection, and with it a late shell. */
async function openShellChannel(
  connection: SshConnection,
  { clock, command, pty, signal, onOutput }: {
    readonly clock: Clock;
    readonly command: string;
    readonly pty: boolean;
    readonly signal: AbortSignal;
    readonly onOutput: OnOutput;
  },
): Promise<ShellChannel> {
  const { client, lost } = connection;
  const { channelMs } = DEFAULT_LIMITS;
  const ended = new AbortController();
  let exitCode: number | undefined;
  const opening = startChannel(client, { command, pty, what: "the shell" }, (channel) => {
    channel.on("data", (bytes) => onOutput("stdout", bytes));
    channel.stderr.on("data", (bytes) => onOutput("stderr", bytes));
    // A background process can keep the channel open after the shell.
    channel.once("exit", (...[code]) => {
      exitCode = code ?? undefined;
      ended.abort();
    });
    channel.once("close", () => ended.abort());
    return channel;
  });
  const channel = await within({
    clock,
    ms: channelMs,
    late: () => executionFailure(`channel open timeout (limit: ${formatDuration(channelMs)})`),
    ...endedBy("execution", signal, lost, (cause) => executionFailure("connection lost", cause)),
  }, opening);
  return {
    write: (text) => void channel.write(text),
    ended: AbortSignal.any([ended.signal, lost]),
    get exitCode() {
      return exitCode;
    },
    signal(name) {
      if (!lost.aborted) protocolOf(client).signal(remoteIdOf(channel), name);
    },
    close: () => channel.close(),
  };
}

export interface ShellLimits extends Pick<SshLimits, "killGraceMs" | "outputBytes"> {
  readonly startMs: number;
  readonly commandMs: number;
}

export const SHELL_LIMITS = { startMs: 10_000, commandMs: 120_000 } as const;

interface ShellLinkOptions {
  readonly mode: "shell" | "pty";
  readonly clock: Clock;
  readonly random: Random;
  readonly limits: ShellLimits;
  readonly open: (onOutput: OnOutput, signal: AbortSignal) => Promise<ShellChannel>;
  readonly close: () => Promise<void>;
}

const DESYNCHRONISED = "shell session is desynchronised after a previous timeout or overflow";
const ENDED = "session shell has ended";
const UNRECORDED = "a command of this session could not be recorded";
const LEFT =
  "the command left the shell's loop (break, continue): its output is lost, and the next command has a fresh shell " +
  "without directory, variables and functions";
const REMEDY = "close this session and open a new one";

/** The modes `shell` and `pty`: one shell that keeps its state from command to command, one command at a time. */
export class ShellLink implements SessionLink {
  readonly #options: ShellLinkOptions;
  #channel: ShellChannel | undefined;
  #running: FramedRun | undefined;
  #broken: string | undefined;
  #ended: Promise<void> = Promise.resolve();

  private constructor(options: ShellLinkOptions) {
    this.#options = options;
  }

  /** Starts the shell and waits for its first answer. On failure the caller closes the connection. */
  static async start(options: ShellLinkOptions, signal: AbortSignal): Promise<ShellLink> {
    const link = new ShellLink(options);
    await link.#start(signal);
    return link;
  }

  async #start(signal: AbortSignal): Promise<void> {
    const { open, mode, random, limits: { startMs, outputBytes } } = this.#options;
    let opened: ShellChannel | undefined;
    this.#channel = opened = await open((stream, bytes) => {
      // Output of an earlier shell, or of a shell that is being opened, belongs to no command.
      if (this.#channel === opened) this.#running?.push(stream, bytes);
    }, signal);
    const frame = createFrame(random);
    // A terminal and some login files print before the frame.
    await this.#run(opened, new FramedRun(frame, ["stdout"], outputBytes), {
      line: encodeStart(frame, mode),
      ms: startMs,
      timeout: `the shell did not answer (limit: ${formatDuration(startMs)})`,
      signal,
    });
  }

  get broken(): string | undefined {
    if (this.#broken === undefined && this.#channel?.ended.aborted) return `${ENDED}; ${REMEDY}`;
    return this.#broken;
  }

  run(command: string, options: LinkRunOptions): Promise<CommandResult> {
    const run = this.#recordedRun(command, options);
    // Drop the result, because it may be large.
    this.#ended = run.then(() => {}, () => {});
    return run;
  }

  async #recordedRun(command: string, { signal, tap, output }: LinkRunOptions): Promise<CommandResult> {
    const channel = this.#channel;
    const { broken } = this;
    if (channel === undefined || broken !== undefined) throw executionFailure(broken ?? ENDED);
    const { mode, random, limits: { commandMs, outputBytes } } = this.#options;
    const streams: readonly ShellStream[] = mode === "pty" ? ["stdout"] : ["stdout", "stderr"];
    const frame = createFrame(random);
    const run = new FramedRun(frame, streams, outputBytes, { tap, output });
    await this.#orBreak(UNRECORDED, async () => {
      await tap?.input(`${command}\n`);
      if (signal.aborted) throw canceled("execution", signal.reason);
    });
    try {
      return await this.#run(channel, run, {
        line: encodeCommand(command, frame, mode),
        ms: commandMs,
        timeout:
          "timeout waiting for command output; the session is desynchronised: close it and open a new one",
        signal,
      });
    } catch (error) {
      if (channel.exitCode !== LEFT_LOOP || signal.aborted) throw error;
      this.#broken = undefined;
      await this.#orBreak(ENDED, () => this.#start(signal));
      throw executionFailure(LEFT, error);
    } finally {
      await this.#orBreak(UNRECORDED, () => run.flush());
    }
  }

  async #orBreak(why: string, step: () => Promise<void>): Promise<void> {
    try {
      await step();
    } catch (error) {
      this.#broken ??= `${why}; ${REMEDY}`;
      throw error;
    }
  }

  async close(): Promise<void> {
    // A pause between the two would not help a command of sudo: sudo passes TERM on to its own child alone, the shell.
    if (this.#running !== undefined) { for (const name of ["TERM", "KILL"]) this.#channel?.signal(name); }
    await this.#options.close();
    // The recording is closed next, and must contain the output.
    await this.#ended;
  }

  async #run(
    channel: ShellChannel,
    run: FramedRun,
    { line, ms, timeout, signal }: {
      readonly line: string;
      readonly ms: number;
      readonly timeout: string;
      readonly signal: AbortSignal;
    },
  ): Promise<CommandResult> {
    this.#running = run;
    try {
      channel.write(line);
      await within({
        clock: this.#options.clock,
        ms,
        late: () => executionFailure(timeout),
        ...endedBy("execution", signal, channel.ended, (cause) => executionFailure(ENDED, cause)),
      }, run.ended);
      const { result } = run;
      if (result === undefined) throw executionFailure("the shell's answer is invalid");
      return result;
    } catch (error) {
      this.#broken ??= `${channel.ended.aborted ? ENDED : DESYNCHRONISED}; ${REMEDY}`;
      await this.#endShell(channel);
      throw error;
    } finally {
      this.#running = undefined;
    }
  }

  async #endShell(channel: ShellChannel): Promise<void> {
    const { clock, limits: { killGraceMs } } = this.#options;
    for (const name of ["TERM", "KILL"]) {
      if (channel.ended.aborted) break;
      channel.signal(name);
      await clock.sleep(killGraceMs, channel.ended).catch(() => {});
    }
    channel.close();
  }
}
