import { AppError } from "@gateway/shared/errors";
import type { LinkRunOptions, SessionLink } from "../sessions/session.ts";
import type { CommandResult } from "../ssh/run_command.ts";
import { keepOf, printed } from "./fake_runner.ts";

/** A link without a host. It returns scripted results and records its commands. */
export class FakeLink implements SessionLink {
  readonly runs: string[] = [];
  broken: string | undefined;
  closed = false;
  answer: (command: string, options: LinkRunOptions) => CommandResult | Promise<CommandResult> = () =>
    printed("ok\n");
  readonly #lost = Promise.withResolvers<never>();

  constructor() {
    this.#lost.promise.catch(() => {});
  }

  async run(command: string, options: LinkRunOptions): Promise<CommandResult> {
    this.runs.push(command);
    await options.tap?.input(`${command}\n`);
    const result = await Promise.race([this.answer(command, options), this.#lost.promise]);
    return keepOf(result, options.output === undefined ? {} : { output: options.output });
  }

  close(): Promise<void> {
    this.closed = true;
    this.#lost.reject(new AppError("upstream_failure", "execution: connection lost"));
    return Promise.resolve();
  }
}
