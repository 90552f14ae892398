import { Buffer } from "node:buffer";
import type { Random } from "@gateway/shared/clock";
import { shellQuote } from "@gateway/shared/text";
import { type KeptBytes, OutputBuffer, truncationMark } from "../ssh/output.ts";
import type { CommandResult } from "../ssh/run_command.ts";
import { RedactingDecoder, type SessionTranscript } from "./recorder.ts";

/** The marks around the output of one command, with 128 random bits each. */
export interface Frame {
  readonly begin: string;
  /** Secret until the command has ended: with it, output could end the frame early or hide what follows. */
  readonly end: string;
}

/** Functions of these names would break the next line. No function hides `unset`, a special builtin. */
const FORGET = "\\unset -f command read 2>/dev/null";

export function createFrame(random: Random): Frame {
  const word = () => `__BRK_${random.bytes(16).toHex()}__`;
  return { begin: word(), end: word() };
}

/** The shell's copies of its output streams carry the frames. Commands, which may redirect 1 and 2, do not get them. */
const FRAME_FD = { stdout: 6, stderr: 7 } as const;
const NO_FRAME_FD = `${FRAME_FD.stdout}>&- ${FRAME_FD.stderr}>&-`;

export type ShellStream = keyof typeof FRAME_FD;

/** The exit code of a shell whose loop was left by a `break` or `continue`. A command can exit with it too. */
export const LEFT_LOOP = 213;

/**
 * The first line for a fresh `/bin/sh`. From then on, the shell evaluates one line at a time and reads
 * nothing else from its input, so that no command can swallow or see the next line. In a terminal, echo and
 * the limit of the line length are turned off.
 *
 * The shell answers with an empty frame, on stdout only. Send nothing before that: some shells read ahead,
 * and the loop would not receive these bytes.
 */
export function encodeStart(frame: Frame, mode: "shell" | "pty"): string {
  const terminal = mode === "pty" ? "stty -echo -icanon -ixon -onlcr 2>/dev/null; PS1=; PS2=; " : "";
  const save = `exec ${FRAME_FD.stdout}>&1 ${FRAME_FD.stderr}>&2; gateway_busy=; `;
  // If a command runs `continue` for this loop, its line is not finished and its frame would never end.
  const left = `case $gateway_busy in ?*) \\exit ${LEFT_LOOP};; esac`;
  const loop = `while ${left}; IFS= read -r gateway_line; ` +
    `do gateway_busy=1; \\command \\eval "$gateway_line"; done`;
  return `${terminal}${save}${print(frame.begin, "0")}; ${print(frame.end, "0")}; ${loop}; ${left}; \\exit\n`;
}

/**
 * One command as a line for the shell. Its output is framed, on each stream, by `<begin>:0` and `<end>:<exit
 * code>`, each with its newline.
 *
 * The command is one quoted word, so that an open quote or here-document ends with it. `command` keeps a
 * syntax error from ending the shell. The input is empty, or the terminal. While the command runs, no
 * variable, environment or argument contains the end word. Paths, backslashes and forgetting the functions
 * `command` and `read` keep functions and aliases of earlier commands out of the frame. A command that
 * replaces the shell (`exec`) can forge frames, which only the agent of this session sees.
 *
 * @param command without CR and LF
 */
export function encodeCommand(command: string, frame: Frame, mode: "shell" | "pty"): string {
  const streams = mode === "pty" ? [FRAME_FD.stdout] : [FRAME_FD.stdout, FRAME_FD.stderr];
  const input = mode === "pty" ? "" : " </dev/null";
  const onEach = (word: string, value: string) =>
    streams.map((stream) => `${print(word, value)} >&${stream}`).join(" && ");
  // The inner loop confines `break` and `continue` to the command.
  const run = `for gateway_once in 1; do \\command \\eval ${
    shellQuote(command)
  }${input} ${NO_FRAME_FD}; gateway_code=$?; done`;
  return `gateway_line=; gateway_code=0; ${onEach(frame.begin, "0")}; ${run}; ${FORGET}; gateway_busy=; ` +
    `{ ${onEach(frame.end, '"$gateway_code"')}; } 2>/dev/null || \\exit\n`;
}

function print(word: string, value: string): string {
  const words = `'%s:%s\\n' '${word}' ${value}`;
  return `{ '/usr/bin/printf' ${words} 2>/dev/null || '/bin/printf' ${words}; }`;
}

const FIELD = /^:(\d{1,3})\r?\n/;
const MAX_FIELD_BYTES = ":255\r\n".length;
/** The first byte after a frame's word is one of these. In the trace of a shell (`set -x`) it is not. */
const FIELD_START = Buffer.from(":\r\n");

/** Extracts the output of one command from a stream of a shell. Background processes of earlier commands print around it. */
export class FramedOutput {
  readonly #words: readonly [begin: Buffer, end: Buffer];
  readonly #onOutput: (bytes: Uint8Array) => void;
  #passed: 0 | 1 | 2 = 0;
  #exitCode: number | undefined;
  #held = Buffer.alloc(0);

  constructor({ begin, end }: Frame, onOutput: (bytes: Uint8Array) => void) {
    this.#words = [Buffer.from(begin), Buffer.from(end)];
    this.#onOutput = onOutput;
  }

  get ended(): boolean {
    return this.#passed === 2;
  }

  get exitCode(): number | undefined {
    return this.#exitCode;
  }

  push(chunk: Uint8Array): void {
    let bytes = this.#held.length === 0 ? Buffer.from(chunk) : Buffer.concat([this.#held, chunk]);
    this.#held = Buffer.alloc(0);
    while (this.#passed < 2) {
      const word = this.#words[this.#passed === 0 ? 0 : 1];
      const at = indexOfField(bytes, word);
      if (at < 0) return this.#hold(bytes, bytes.length - overlap(bytes, word));
      const rest = bytes.subarray(at + word.length);
      const field = FIELD.exec(rest.toString("latin1", 0, MAX_FIELD_BYTES));
      if (field === null && rest.length < MAX_FIELD_BYTES && !rest.includes("\n")) {
        return this.#hold(bytes, at);
      }
      this.#deliver(bytes.subarray(0, at));
      bytes = rest.subarray(field?.[0].length ?? 0);
      this.#passed = this.#passed === 0 ? 1 : 2;
      const code = Number(field?.[1] ?? NaN);
      if (this.#passed === 2 && code <= 255) this.#exitCode = code;
    }
  }

  #hold(bytes: Buffer, at: number): void {
    this.#deliver(bytes.subarray(0, at));
    this.#held = Buffer.from(bytes.subarray(at));
  }

  #deliver(bytes: Buffer): void {
    if (bytes.length > 0 && this.#passed === 1) this.#onOutput(bytes);
  }
}

function indexOfField(bytes: Buffer, word: Buffer): number {
  let at = bytes.indexOf(word);
  while (at >= 0) {
    const next = bytes[at + word.length];
    if (next === undefined || FIELD_START.includes(next)) return at;
    at = bytes.indexOf(word, at + word.length);
  }
  return at;
}

function overlap(bytes: Buffer, word: Buffer): number {
  for (let length = Math.min(bytes.length, word.length - 1); length > 0; length--) {
    if (bytes.subarray(bytes.length - length).equals(word.subarray(0, length))) return length;
  }
  return 0;
}

/** The output of one command in a shell, read from the streams that the whole session shares. */
export class FramedRun {
  readonly #ended = Promise.withResolvers<void>();
  readonly #readings: ReadonlyMap<
    ShellStream,
    { readonly framed: FramedOutput; readonly kept: OutputBuffer; readonly tap: RedactingDecoder | undefined }
  >;
  readonly #outputBytes: number;

  /** `outputBytes` limits the recording of each stream, and the result unless `output` does. */
  constructor(frame: Frame, streams: readonly ShellStream[], outputBytes: number, options: {
    readonly output?: KeptBytes | undefined;
    readonly tap?: SessionTranscript | undefined;
  } = {}) {
    const { tap, output = { headBytes: outputBytes, tailBytes: 0 } } = options;
    this.#outputBytes = outputBytes;
    this.#readings = new Map(streams.map((stream) => {
      const kept = new OutputBuffer(output);
      const textTap = tap && new RedactingDecoder(tap, stream, outputBytes);
      const framed = new FramedOutput(frame, (bytes) => {
        kept.write(bytes);
        textTap?.push(bytes);
      });
      return [stream, { framed, kept, tap: textTap }];
    }));
  }

  get ended(): Promise<void> {
    return this.#ended.promise;
  }

  push(stream: ShellStream, bytes: Uint8Array): void {
    this.#readings.get(stream)?.framed.push(bytes);
    if ([...this.#readings.values()].every(({ framed }) => framed.ended)) this.#ended.resolve();
  }

  /** Records the remaining output, including that of a command that has not ended. */
  async flush(): Promise<void> {
    const limit = this.#outputBytes;
    for (const { kept, tap } of this.#readings.values()) {
      await tap?.end(kept.totalBytes > limit ? truncationMark(limit) : "");
    }
  }

  /** The result of the command. Without one the frame is invalid, and the shell cannot be trusted. */
  get result(): CommandResult | undefined {
    const codes = new Set([...this.#readings.values()].map(({ framed }) => framed.exitCode));
    const [exitCode] = codes;
    if (codes.size !== 1 || exitCode === undefined) return undefined;
    const outputOf = (stream: ShellStream) =>
      (this.#readings.get(stream)?.kept ?? new OutputBuffer({ headBytes: 0, tailBytes: 0 })).output();
    return { stdout: outputOf("stdout"), stderr: outputOf("stderr"), exitCode };
  }
}
