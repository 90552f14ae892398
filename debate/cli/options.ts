import { AppError } from "@gateway/shared/errors";
import { type Command, type CommanderError, InvalidArgumentError } from "commander";
import { ModelError } from "../engine/ports.ts";
import { safeText, type Terminal } from "./terminal.ts";

/** Parses an option that may appear once. A value that is empty or looks like an option was probably forgotten. */
export function once(value: string, previous: string | undefined): string {
  checkValue(value);
  if (previous !== undefined) throw new InvalidArgumentError("Use the option once.");
  return value;
}

export function repeated(value: string, previous: readonly string[] | undefined): readonly string[] {
  checkValue(value);
  return [...previous ?? [], value];
}

export function countOf(min: number, max: number): (value: string) => number {
  return (value) => {
    const count = /^\d{1,15}$/.test(value) ? Number(value) : NaN;
    if (count >= min && count <= max) return count;
    throw new InvalidArgumentError(`Expected a number from ${min} to ${max}.`);
  };
}

export function shareOf(value: string): number {
  const share = /^(?:\d+(?:\.\d*)?|\.\d+)$/.test(value) ? Number(value) : NaN;
  if (share <= 1) return share;
  throw new InvalidArgumentError("Expected a number from 0 to 1.");
}

export function addJson(command: Command, what: string): Command {
  return command.option("--json", `print ${what} as JSON`);
}

function checkValue(value: string): void {
  if (value.trim() === "") throw new InvalidArgumentError("The value is empty.");
  if (value.startsWith("-") && value !== "-") {
    throw new InvalidArgumentError("The option needs a value. For a file named -x, write ./-x.");
  }
}

/** Sets the action of a command. An action without an exit code succeeded. */
export function actions(end: (code: ExitCode) => void) {
  return <A extends unknown[]>(command: Command, run: (...args: A) => Promise<ExitCode | void>) =>
    command.action(async (...args: A) => end(await run(...args) ?? EXIT_CODES.ok));
}

export const EXIT_CODES = { ok: 0, failed: 1, usage: 2, interrupted: 130 } as const;

export type ExitCode = (typeof EXIT_CODES)[keyof typeof EXIT_CODES];

const USAGE = /^(?:invalid_request|invalid_config|not_found|payload_too_large|unsupported_media_type)$/;

export function exitCodeOf(error: unknown): ExitCode {
  return error instanceof AppError && USAGE.test(error.code) ? EXIT_CODES.usage : EXIT_CODES.failed;
}

export function writeFailure(
  terminal: Pick<Terminal, "err">,
  error: unknown,
  { json = false }: { readonly json?: boolean },
): void {
  const code = error instanceof AppError ? error.code : error instanceof ModelError ? error.kind : undefined;
  const message = code !== undefined && error instanceof Error ? error.message : String(error);
  const shown = json ? JSON.stringify({ code: code ?? "internal", message }) : `error: ${safeText(message)}`;
  terminal.err(`${shown}\n`);
}

export function usageError(text: string): AppError {
  return new AppError("invalid_request", text);
}

/** Converts an error of Commander. `command` is the command whose help explains it. */
export function toUsageError({ code, message }: CommanderError, command: string): AppError {
  // Commander has already printed the help and has no other message.
  if (code === "commander.help") {
    return usageError("Unknown command; the commands are listed above");
  }
  const text = message.replace(/^error: /, "").replace(/\n/g, " ").replace(/\.$/, "");
  const problem = `${text.charAt(0).toUpperCase()}${text.slice(1)}`;
  return usageError(`${problem}\nfix: ${command} --help`);
}
