import type { Command } from "commander";
import type { CommandResult, LineWriter, Terminal } from "./output.ts";

/** What the program takes from its process. */
export interface Environment {
  readonly terminal: Terminal;
  readonly workingFolder: string;
  readonly variables: Readonly<Record<string, string | undefined>>;
  /** What is typed at a terminal, key by key, until the signal is aborted; absent where there is none. */
  readonly keys?: ((signal: AbortSignal) => AsyncIterable<string>) | undefined;
  /** Gives up the right to start programs, before a command that starts none; absent where there is none to give up. */
  readonly dropPrograms?: () => void;
  /** Ends what would otherwise run for ever; absent: only the end of the process does. */
  readonly signal?: AbortSignal;
}

/** A global option. Every command accepts both; only some read them. */
export type GlobalOption = "config" | "clientConfig";

/** What a command may do: read the file of a global option, or start programs such as `ssh`. */
export type Use = GlobalOption | "programs";

export interface CommandContext extends Environment {
  /**
   * Runs an action and writes what it gives, as text or JSON.
   *
   * @param uses Without `programs`, the process gives up the right to start programs before the action. The
   * certificates in the files of the global options are checked for expiry.
   */
  readonly run: (
    command: Command,
    uses: readonly Use[],
    action: () => Promise<CommandResult | void>,
  ) => Promise<void>;
  /** Runs an action that writes line by line instead, without the right to start programs. */
  readonly stream: (action: (writer: LineWriter) => Promise<void>) => Promise<void>;
}

/** Adds one command, or a family of them, to the program. */
export type AddCommand = (program: Command, context: CommandContext) => void;
