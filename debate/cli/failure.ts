import { AppError } from "@gateway/shared/errors";
import type { CommanderError } from "commander";
import { ModelError } from "../engine/model.ts";
import { safeText, type Terminal } from "./terminal.ts";

/** Done, whatever the verdict; failed; wrong usage or configuration; interrupted by Ctrl-C. */
export const EXIT_CODES = { ok: 0, failed: 1, usage: 2, interrupted: 130 } as const;

export type ExitCode = (typeof EXIT_CODES)[keyof typeof EXIT_CODES];

const USAGE: ReadonlySet<string> = new Set([
  "invalid_request",
  "invalid_config",
  "not_found",
  "payload_too_large",
  "unsupported_media_type",
]);

export function exitCodeOf(error: unknown): ExitCode {
  return error instanceof AppError && USAGE.has(error.code) ? EXIT_CODES.usage : EXIT_CODES.failed;
}

export function writeFailure(
  terminal: Pick<Terminal, "err">,
  error: unknown,
  options: { readonly json: boolean },
): void {
  const { code, message } = describe(error);
  terminal.err(options.json ? `${JSON.stringify({ code, message })}\n` : `error: ${safeText(message)}\n`);
}

/** An error of Commander as one of ours, with the command whose help explains it. */
export function toUsageError(error: CommanderError, command: string): AppError {
  // After `debate help nothing` it has already printed the help and gives no other message.
  if (error.code === "commander.help") {
    return new AppError("invalid_request", "There is no such command; the commands are listed above");
  }
  const text = error.message.replace(/^error: /, "").replace(/\n/g, " ");
  const message = text.charAt(0).toUpperCase() + text.slice(1).replace(/\.$/, "");
  return new AppError("invalid_request", `${message}; ${command} --help explains`);
}

function describe(error: unknown): { readonly code: string; readonly message: string } {
  if (error instanceof AppError) return { code: error.code, message: error.message };
  if (error instanceof ModelError) return { code: error.kind, message: error.message };
  return {
    code: "internal",
    message: String(error),
  };
}
