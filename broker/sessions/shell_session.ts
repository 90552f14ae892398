import { type Clock, type Random, within } from "@gateway/shared/clock";
import { formatDuration } from "@gateway/shared/text";
import { canceled, endedBy, executionFailure, type SshLimits } from "../ssh/failures.ts";
import type { CommandResult } from "../ssh/run_command.ts";
import { FramedRun } from "./framed_run.ts";
import type { LinkRunOptions, SessionLink } from "./link.ts";
import type { OnOutput, ShellChannel, ShellStream } from "./shell_channel.ts";
import { createFrame, encodeCommand, encodeStart, LEFT_LOOP } from "./shell_protocol.ts";

/** How long a shell may take, and how much it may print. */
export interface ShellLimits extends Pick<SshLimits, "killGraceMs" | "outputBytes"> {
  readonly startMs: number;
  readonly commandMs: number;
}

export const SHELL_LIMITS = { startMs: 10_000, commandMs: 120_000 } as const;

/** What a {@linkcode ShellLink} is made of. */
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
  "the command left the shell's loop (break, continue): what it printed is lost, and the next command " +
  "has a fresh shell, without its folder, variables and functions";
const REMEDY = "close this session and open a new one";

/** The modes `shell` and `pty`: one shell that keeps its state from command to command. One command at a time. */
export class ShellLink implements SessionLink {
  readonly #options: ShellLinkOptions;
  #channel: ShellChannel | undefined;
  #running: FramedRun | undefined;
  #broken: string | undefined;
  /** Resolves when the last command has ended, and is recorded. */
  #ended: Promise<void> = Promise.resolve();

  private constructor(options: ShellLinkOptions) {
    this.#options = options;
  }

  /**
   * Starts the shell and waits for its first answer. When that fails, whoever opened the connection closes it.
   *
   * @throws {AppError} `upstream_failure` with a text that begins with `execution: `, or `canceled`
   */
  static async start(options: ShellLinkOptions, signal: AbortSignal): Promise<ShellLink> {
    const link = new ShellLink(options);
    await link.#start(signal);
    return link;
  }

  async #start(signal: AbortSignal): Promise<void> {
    const { open, mode, random, limits: { startMs, outputBytes } } = this.#options;
    // A channel whose shell prints something while it is opened has nobody to read that.
    const shell: { channel?: ShellChannel } = {};
    const channel = await open((stream, bytes) => {
      // What a shell before it still prints is nobody's.
      if (this.#channel === shell.channel) this.#running?.push(stream, bytes);
    }, signal);
    shell.channel = channel;
    this.#channel = channel;
    const frame = createFrame(random);
    // A terminal and some login files print before the frame, which is not part of it.
    const run = new FramedRun(frame, { streams: ["stdout"], outputBytes, tap: undefined });
    await this.#run(channel, run, {
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
    // Without its result, which may be long.
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
    const run = new FramedRun(frame, { streams, outputBytes, tap, output });
    try {
      await tap?.input(`${command}\n`);
      if (signal.aborted) throw canceled("execution", signal.reason);
    } catch (error) {
      if (!signal.aborted) this.#broken ??= `${UNRECORDED}; ${REMEDY}`;
      throw error;
    }
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
      await this.#renew(signal);
      throw executionFailure(LEFT, error);
    } finally {
      await this.#record(run);
    }
  }

  /** Starts another shell on the same connection, for one that its command has ended by mistake. */
  async #renew(signal: AbortSignal): Promise<void> {
    this.#broken = undefined;
    try {
      await this.#start(signal);
    } catch (error) {
      this.#broken ??= `${ENDED}; ${REMEDY}`;
      throw error;
    }
  }

  async close(): Promise<void> {
    // A pause between the two would change nothing for what runs through sudo: it passes TERM on to its own child
    // alone, which is the shell.
    if (this.#running !== undefined) { for (const name of ["TERM", "KILL"]) this.#channel?.signal(name); }
    await this.#options.close();
    // What it printed goes into the recording, which is closed next.
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
      if (result === undefined) throw executionFailure("the shell's answer makes no sense");
      return result;
    } catch (error) {
      this.#broken ??= `${channel.ended.aborted ? ENDED : DESYNCHRONISED}; ${REMEDY}`;
      await this.#endShell(channel);
      throw error;
    } finally {
      this.#running = undefined;
    }
  }

  /** What a broken shell runs, nobody waits for any more. */
  async #endShell(channel: ShellChannel): Promise<void> {
    const { clock, limits: { killGraceMs } } = this.#options;
    for (const name of ["TERM", "KILL"]) {
      if (channel.ended.aborted) break;
      channel.signal(name);
      await clock.sleep(killGraceMs, channel.ended).catch(() => {});
    }
    channel.close();
  }

  async #record(run: FramedRun): Promise<void> {
    try {
      await run.flush();
    } catch (error) {
      this.#broken ??= `${UNRECORDED}; ${REMEDY}`;
      throw error;
    }
  }
}
