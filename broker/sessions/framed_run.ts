import { type KeptBytes, OutputBuffer, truncationMark } from "../ssh/output.ts";
import type { CommandResult } from "../ssh/run_command.ts";
import { FramedOutput } from "./framed_output.ts";
import type { Tap } from "./link.ts";
import type { ShellStream } from "./shell_channel.ts";
import type { Frame } from "./shell_protocol.ts";
import { TextTap } from "./text_tap.ts";

/** Where and how much of a command's output is kept. */
interface FramedRunOptions {
  /** The streams that the frame is on. */
  readonly streams: readonly ShellStream[];
  /** The most that is recorded of each, and kept unless something else is asked for. */
  readonly outputBytes: number;
  readonly output?: KeptBytes | undefined;
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
  readonly #outputBytes: number;
  #onEnd: () => void = () => {};

  constructor(frame: Frame, options: FramedRunOptions) {
    this.#outputBytes = options.outputBytes;
    this.#readings = new Map(options.streams.map((stream) => [stream, read(frame, stream, options)]));
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
    const limit = this.#outputBytes;
    for (const { kept, tap } of this.#readings.values()) {
      await tap?.end(kept.totalBytes > limit ? truncationMark(limit) : "");
    }
  }

  /** What the command came to; `undefined` when its frame makes no sense, and the shell can't be trusted. */
  get result(): CommandResult | undefined {
    const codes = new Set([...this.#readings.values()].map(({ framed }) => framed.exitCode));
    const [exitCode] = codes;
    if (codes.size !== 1 || exitCode === undefined) return undefined;
    return {
      stdout: this.#readings.get("stdout")?.kept.output() ?? NO_OUTPUT,
      stderr: this.#readings.get("stderr")?.kept.output() ?? NO_OUTPUT,
      exitCode,
    };
  }
}

const NO_OUTPUT = new OutputBuffer({ headBytes: 0, tailBytes: 0 }).output();

function read(
  frame: Frame,
  stream: ShellStream,
  { outputBytes, tap, output = { headBytes: outputBytes, tailBytes: 0 } }: FramedRunOptions,
): Reading {
  const kept = new OutputBuffer(output);
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
