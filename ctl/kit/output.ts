import { AppError, errorText } from "@gateway/shared/errors";
import { stringifyJson } from "@gateway/shared/json";
import { visibleJson, visibleText } from "@gateway/shared/text";

/** Where text goes; complete lines only. */
export interface Terminal {
  readonly out: (text: string) => void;
  readonly err: (text: string) => void;
  /** How many characters fit on a line of it; absent where no terminal shows what is written. */
  readonly columns?: number | undefined;
}

/** What a command gives: an object for programs, and lines for people. */
export interface CommandResult {
  readonly json: unknown;
  readonly lines: readonly string[];
  /** The command did its work and found something wrong: exit code 1. */
  readonly failed?: boolean;
}

/** The command line can't be understood: exit code 2. */
export const invalid = (message: string): AppError => new AppError("invalid_request", message);
export const conflict = (message: string): AppError => new AppError("conflict", message);
export const badConfig = (message: string): AppError => new AppError("invalid_config", message);

/** An error with advice on what to do about it. */
export class HintedError extends AppError {
  readonly hint: string;

  constructor(error: AppError, hint: string) {
    super(error.code, error.message, { cause: error.cause });
    this.hint = hint;
  }
}

/** A service's refusal. The command line was understood, whatever the code says: the exit code is 1. */
export class RemoteError extends HintedError {}

/** How an action writes that runs for long or writes very much. */
export interface LineWriter {
  /** Lines are JSON texts, for programs. */
  readonly json: boolean;
  readonly line: (text: string) => void;
  /** One line about the result, for people, on standard error. */
  readonly note: (text: string) => void;
}

/** Lines written as they come, with control characters made visible. */
export function createLineWriter(terminal: Terminal, options: { readonly json: boolean }): LineWriter {
  const shown = options.json ? visibleJson : visibleText;
  return {
    json: options.json,
    line: (text) => terminal.out(`${shown(text)}\n`),
    note: (text) => terminal.err(`${visibleText(text)}\n`),
  };
}

/** Writes a result to standard output: one JSON object, or its lines with control characters made visible. */
export function writeResult(
  terminal: Terminal,
  options: { readonly json: boolean },
  result: CommandResult,
): void {
  if (options.json) terminal.out(`${visibleJson(stringifyJson(result.json))}\n`);
  else terminal.out(result.lines.map((line) => `${visibleText(line)}\n`).join(""));
}

/**
 * Writes an error to standard error: one JSON object with `code`, `message` and `hint`, or the same as text.
 * An error that is not an {@linkcode AppError} is a defect of the program and says so.
 */
export function writeError(terminal: Terminal, options: { readonly json: boolean }, error: unknown): void {
  const { code, message, hint } = describeError(error);
  if (options.json) {
    terminal.err(`${visibleJson(stringifyJson({ code, message, hint }))}\n`);
    return;
  }
  const lines = message.split("\n").map(visibleText);
  terminal.err(`error: ${lines.join("\n")}\n${hint === "" ? "" : `hint: ${visibleText(hint)}\n`}`);
}

function describeError(
  error: unknown,
): { readonly code: string; readonly message: string; readonly hint: string } {
  if (error instanceof AppError) {
    return { code: error.code, message: error.message, hint: error instanceof HintedError ? error.hint : "" };
  }
  return isSystemError(error)
    ? { code: "internal", message: errorText(error), hint: "" }
    : { code: "internal", message: String(error), hint: "this is a defect of broker-ctl" };
}

/** A file or connection that the system refused, rather than a mistake of ours. */
function isSystemError(error: unknown): boolean {
  if (Object.values(Deno.errors).some((kind) => error instanceof kind)) return true;
  // Of what Deno has no name for, as a full disk; by its own API, and by Node's.
  return error instanceof Error && (/\(os error \d+\)$/.test(error.message) || "syscall" in error);
}

/** How `broker-ctl` ends: done, failed, or called in a way it does not understand. */
export const EXIT_CODES = { ok: 0, failed: 1, usage: 2 } as const;

/** One of {@linkcode EXIT_CODES}. */
export type ExitCode = (typeof EXIT_CODES)[keyof typeof EXIT_CODES];

/** The exit code for an error: usage for an `invalid_request` that the command line caused. */
export function exitCodeOf(error: unknown): ExitCode {
  if (error instanceof RemoteError) return EXIT_CODES.failed;
  return error instanceof AppError && error.code === "invalid_request" ? EXIT_CODES.usage : EXIT_CODES.failed;
}

/** Advice on one kind of error. */
export interface Advice {
  readonly when: (error: AppError) => boolean;
  readonly hint: string;
}

/**
 * Runs an action, and adds the advice to its error.
 *
 * @throws {HintedError} for an error that the advice is about; any other error unchanged
 */
export async function withHint<T>(advice: Advice | undefined, action: () => Promise<T>): Promise<T> {
  try {
    return await action();
  } catch (error) {
    if (error instanceof AppError && advice?.when(error)) throw new HintedError(error, advice.hint);
    throw error;
  }
}

const ADVICE: Advice = {
  when: ({ cause }) => cause instanceof Deno.errors.NotFound,
  hint: "--config names the file; broker-ctl init makes one",
};

/** Loads a config; where there is no such file the error says which option names it. */
export function hintMissingConfig<T>(load: () => Promise<T>): Promise<T> {
  return withHint(ADVICE, load);
}
