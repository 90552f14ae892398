import { OutputBuffer } from "../ssh/output_buffer.ts";
import type { CommandResult } from "../ssh/run_command.ts";
import { FramedOutput } from "./framed_output.ts";
import type { Tap } from "./link.ts";
import type { ShellStream } from "./shell_channel.ts";
import type { Frame } from "./shell_protocol.ts";
import { TextTap } from "./text_tap.ts";

/** Where and how much of a command's output is kept. */
export interface FramedRunOptions {
  /** The streams that the frame is on. */
  readonly streams: readonly ShellStream[];
  /** The most that is kept of each. */
  readonly outputBytes: number;
  readonly tap: Tap | undefined;
}

interface Reading {
  readonly framed: FramedOutput;
  readonly kept: OutputBuffer;
  readonly tap: TextTap | undefined;
}

/** The output of one command in a shell, from the streams that the whole session shares. */
export class FramedRun {
  /** Resolves when the frame has ended on all streams. */
  readonly ended: Promise<void>;
  readonly #readings: ReadonlyMap<ShellStream, Reading>;
  #onEnd: () => void = () => {};

  constructor(frame: Frame, { streams, outputBytes, tap }: FramedRunOptions) {
    this.#readings = new Map(streams.map((stream) => [stream, read(frame, { stream, outputBytes, tap })]));
    this.ended = new Promise((resolve) => this.#onEnd = resolve);
  }

  /** Takes the next bytes of a stream. */
  push(stream: ShellStream, bytes: Uint8Array): void {
    this.#readings.get(stream)?.framed.push(bytes);
    if ([...this.#readings.values()].every(({ framed }) => framed.ended)) this.#onEnd();
  }

  /**
   * Records what has not been recorded yet, also of a command that has not ended.
   *
   * @throws what the tap rejects with
   */
  async flush(): Promise<void> {
    for (const { kept, tap } of this.#readings.values()) await tap?.end(kept.mark);
  }

  /** What the command came to; `undefined` when its frame makes no sense, and the shell can't be trusted. */
  get result(): CommandResult | undefined {
    const codes = new Set([...this.#readings.values()].map(({ framed }) => framed.exitCode));
    const [exitCode] = codes;
    if (codes.size !== 1 || exitCode === undefined) return undefined;
    return {
      stdout: this.#readings.get("stdout")?.kept.bytes() ?? new Uint8Array(),
      stderr: this.#readings.get("stderr")?.kept.bytes() ?? new Uint8Array(),
      exitCode,
    };
  }
}

function read(
  frame: Frame,
  { stream, outputBytes, tap }: {
    readonly stream: ShellStream;
    readonly outputBytes: number;
    readonly tap: Tap | undefined;
  },
): Reading {
  const kept = new OutputBuffer(outputBytes);
  const textTap = tap && new TextTap({
    write: (text) => stream === "stdout" ? tap.output(text) : tap.error(text),
    redact: tap.openRedaction(),
    maxBytes: outputBytes,
  });
  const framed = new FramedOutput(frame, (bytes) => {
    kept.write(bytes);
    textTap?.push(bytes);
  });
  return { framed, kept, tap: textTap };
}
