import { type OneShotPorts, type OneShotRequest, type OneShotResult, runOneShot } from "./one_shot.ts";
import { outputText } from "./output_text.ts";

/** One command on one host that reads nothing. */
export type ExecuteRequest = Omit<OneShotRequest, "fileTransfer" | "stdin">;

/** What a request came to, when nothing was in its way. */
export type ExecuteResult =
  | {
    readonly kind: "executed";
    readonly stdout: string;
    readonly stderr: string;
    readonly exitCode: number;
    readonly serial: bigint;
    /** What an audit-mode policy has to say. */
    readonly warnings: readonly string[];
  }
  | Exclude<OneShotResult, { readonly kind: "executed" }>;

/** Runs one command, or previews the decision about it. */
export type Execute = (request: ExecuteRequest, signal: AbortSignal) => Promise<ExecuteResult>;

/**
 * Runs one command, or previews the decision about it, and gives what it printed as text.
 *
 * @throws {AppError} as {@linkcode runOneShot} does
 */
export async function execute(
  ports: OneShotPorts,
  request: ExecuteRequest,
  signal: AbortSignal,
): Promise<ExecuteResult> {
  const result = await runOneShot(ports, request, signal);
  if (result.kind !== "executed") return result;
  const { output: { stdout, stderr, exitCode }, serial, warnings } = result;
  return {
    kind: "executed",
    stdout: outputText(stdout),
    stderr: outputText(stderr),
    exitCode,
    serial,
    warnings,
  };
}
