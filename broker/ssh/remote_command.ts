import type { RemoteExit } from "./exit_status.ts";
import { OutputBuffer } from "./output_buffer.ts";
import { settledWithin } from "./phase.ts";
import type { Ssh2Channel, Ssh2Client } from "./ssh2_library.ts";
import { protocolOf, remoteIdOf } from "./ssh2_protocol.ts";

/** A command that the host has started. */
export class RemoteCommand {
  readonly stdout: OutputBuffer;
  readonly stderr: OutputBuffer;
  /** How it ended, once its channel is closed and all output is here; `undefined` when the host did not say. */
  readonly ended: Promise<RemoteExit | undefined>;
  readonly #client: Ssh2Client;
  readonly #channel: Ssh2Channel;

  /** Has to be called in the callback that hands out the channel, lest an early event be missed. */
  constructor(client: Ssh2Client, channel: Ssh2Channel, outputBytes: number) {
    this.stdout = new OutputBuffer(outputBytes);
    this.stderr = new OutputBuffer(outputBytes);
    this.#client = client;
    this.#channel = channel;
    this.ended = collect(channel, this.stdout, this.stderr);
    // The command's stdin is at its end from the start.
    channel.end();
  }

  /**
   * Ends the command: TERM, then KILL, then the channel is closed, which hangs up a pseudo-terminal and breaks
   * the pipes of any other command.
   *
   * @returns whether the host has confirmed that the command is gone. OpenSSH obeys no signal for a command
   * that the certificate forces; one that neither reads nor writes and has no pseudo-terminal goes on there
   */
  async terminate(graceMs: number): Promise<boolean> {
    for (const name of ["TERM", "KILL"]) {
      // Not channel.signal(): ssh2 sends nothing once stdin is at its end.
      protocolOf(this.#client).signal(remoteIdOf(this.#channel), name);
      const closed = await settledWithin(this.ended.then((exit) => ({ exit })), graceMs);
      if (closed !== undefined) return closed.exit !== undefined;
    }
    this.#channel.close();
    return false;
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
