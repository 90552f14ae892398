import type { CommandResult, RunCommandOptions } from "../ssh/run_command.ts";

/** Output as a host would send it. */
export function printed(
  stdout: string,
  options: { readonly stderr?: string; readonly exitCode?: number } = {},
) {
  const encode = (text: string) => new TextEncoder().encode(text);
  const result: CommandResult = {
    stdout: encode(stdout),
    stderr: encode(options.stderr ?? ""),
    exitCode: options.exitCode ?? 0,
  };
  return result;
}

/** Runs nothing: gives what a test tells it to, and keeps what it was asked. */
export class FakeRunner {
  readonly runs: RunCommandOptions[] = [];
  answer: (options: RunCommandOptions) => CommandResult | Promise<CommandResult> = () =>
    printed("up 3 days\n");

  readonly run = async (options: RunCommandOptions): Promise<CommandResult> => {
    this.runs.push(options);
    return await this.answer(options);
  };
}

/** A command that never ends by itself. */
export function hangUntilAborted({ signal }: RunCommandOptions): Promise<never> {
  return new Promise((_resolve, reject) => {
    signal?.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
}
