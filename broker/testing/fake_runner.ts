import { keptBytes, type Output, OutputBuffer } from "../ssh/output.ts";
import type { CommandResult, RunCommandOptions } from "../ssh/run_command.ts";

/** A stream that a host has sent, kept completely. */
export function sent(content: string | Uint8Array<ArrayBuffer>): Output {
  const head = typeof content === "string" ? new TextEncoder().encode(content) : content;
  return { head, tail: new Uint8Array(), totalBytes: head.length };
}

/** The same result, truncated to the length that a request keeps. */
export function keepOf(result: CommandResult, { output }: Pick<RunCommandOptions, "output">): CommandResult {
  if (output === undefined) return result;
  const keep = (stream: Output) => {
    const buffer = new OutputBuffer(output);
    buffer.write(keptBytes(stream));
    return buffer.output();
  };
  return { ...result, stdout: keep(result.stdout), stderr: keep(result.stderr) };
}

/** Output of a command, as a host sends it. */
export function printed(
  stdout: string,
  options: { readonly stderr?: string; readonly exitCode?: number } = {},
) {
  const result: CommandResult = {
    stdout: sent(stdout),
    stderr: sent(options.stderr ?? ""),
    exitCode: options.exitCode ?? 0,
  };
  return result;
}

/** Runs nothing, returns scripted results and records its requests. */
export class FakeRunner {
  readonly runs: RunCommandOptions[] = [];
  answer: (options: RunCommandOptions) => CommandResult | Promise<CommandResult> = () =>
    printed("up 3 days\n");

  readonly run = async (options: RunCommandOptions): Promise<CommandResult> => {
    this.runs.push(options);
    return keepOf(await this.answer(options), options);
  };
}

/** A command that ends only when it is aborted. */
export function hangUntilAborted({ signal }: RunCommandOptions): Promise<never> {
  return new Promise((_resolve, reject) => {
    signal?.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
}
