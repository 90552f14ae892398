import { AppError } from "@gateway/shared/errors";
import { RemoteError } from "./output.ts";

/** How `broker-ctl` ends: done, failed, or called in a way it does not understand. */
export const EXIT_CODES = { ok: 0, failed: 1, usage: 2 } as const;

/** One of {@linkcode EXIT_CODES}. */
export type ExitCode = (typeof EXIT_CODES)[keyof typeof EXIT_CODES];

/** The exit code for an error: usage for an `invalid_request` that the command line caused. */
export function exitCodeOf(error: unknown): ExitCode {
  if (error instanceof RemoteError) return EXIT_CODES.failed;
  return error instanceof AppError && error.code === "invalid_request" ? EXIT_CODES.usage : EXIT_CODES.failed;
}
