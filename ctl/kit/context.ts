import type { Command } from "commander";
import type { CommandResult, Terminal } from "./output.ts";

/** The parts of the process that the program uses. */
export interface Environment {
  readonly terminal: Terminal;
  readonly workingFolder: string;
  readonly variables: Readonly<Record<string, string | undefined>>;
  /** The keys typed at a terminal, until the signal is aborted; absent: standard input is no terminal. */
  readonly keys?: ((signal: AbortSignal) => AsyncIterable<string>) | undefined;
  /** Gives up the right to start programs. */
  readonly dropPrograms?: () => void;
  /** Ends commands that would otherwise run until the process ends. */
  readonly signal?: AbortSignal;
}

/** A global option. Every command accepts both, and some commands read them. */
export type GlobalOption = "config" | "clientConfig";

/** A right of a command: to read the file of a global option, or to start programs such as `ssh`. */
export type Use = GlobalOption | "programs";

export interface CommandContext extends Environment {
  /**
   * Runs an action and writes its result, as text or JSON. Without the use `programs`, the process first gives up the
   * right to start programs. Certificates in the used files are checked for expiry.
   */
  readonly run: (
    command: Command,
    uses: readonly Use[],
    action: () => Promise<CommandResult | void>,
  ) => Promise<void>;
}

/** Adds commands to the program. */
export type AddCommand = (program: Command, context: CommandContext) => void;
