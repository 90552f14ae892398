import { type Clock, within } from "@gateway/shared/clock";
import type { SshBounds } from "./limits.ts";
import { type KeptBytes, OutputBuffer } from "./output_buffer.ts";
import type { Ssh2Channel, Ssh2Client } from "./ssh2_library.ts";
import { protocolOf, remoteIdOf } from "./ssh2_protocol.ts";

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
