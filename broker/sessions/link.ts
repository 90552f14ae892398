import type { RedactStream } from "@gateway/shared/redact";
import type { KeptBytes } from "../ssh/output.ts";
import type { CommandResult } from "../ssh/run_command.ts";

/** Where a command's input and output are recorded; a `Recorder` fits. */
export interface Tap {
  /** Begins a stream; what it gives is what {@linkcode output} and {@linkcode error} take. */
  openRedaction(): RedactStream;
  /** Rejects when the command must not run unrecorded. */
  input(text: string): Promise<void>;
  /** Rejects when the output must not be given out unrecorded. */
  output(text: string): Promise<void>;
  error(text: string): Promise<void>;
}

/** How a command of a session runs. */
export interface LinkRunOptions {
  readonly signal: AbortSignal;
  /** The host ends the command when its stdin ends (`stop_on_disconnect`); in the mode `exec` alone. */
  readonly stopsAtStdinEnd?: boolean;
  readonly tap?: Tap | undefined;
  /** What is kept of each stream; absent: the first bytes, as many as the limits say. */
  readonly output?: KeptBytes | undefined;
}

/** Of a session without a certificate: each of its commands connects with one of its own. */
export const NO_LINK: SessionLink = {
  broken: undefined,
  run: () => Promise.reject(new TypeError("A session without a certificate runs nothing")),
  close: () => Promise.resolve(),
};

/** The way of one session's commands to its host. */
export interface SessionLink {
  /** Why no command can run any more; `undefined` while one can. */
  readonly broken: string | undefined;
  /**
   * Runs a command.
   *
   * @throws {AppError} `upstream_failure` with a text that begins with `execution: `, `canceled`, or what the tap
   * rejects with
   */
  run(command: string, options: LinkRunOptions): Promise<CommandResult>;
  /** Closes the connection, whatever runs on it. */
  close(): Promise<void>;
}
