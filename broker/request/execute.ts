import { type OneShotPorts, type OneShotRequest, type OneShotResult, runOneShot } from "./one_shot.ts";
import type { Output } from "../ssh/output_buffer.ts";

/** One command on one host that reads nothing. */
export type ExecuteRequest = Omit<OneShotRequest, "fileTransfer" | "stdin">;

/** What a request came to, when nothing was in its way. */
export type ExecuteResult =
  | {
    readonly kind: "executed";
    readonly stdout: Output;
    readonly stderr: Output;
    readonly exitCode: number;
    readonly serial: bigint;
    /** What an audit-mode policy has to say. */
    readonly warnings: readonly string[];
  }
  | Exclude<OneShotResult, { readonly kind: "executed" }>;

/** Runs one command, or previews the decision about it. */
export type Execute = (request: ExecuteRequest, signal: AbortSignal) => Promise<ExecuteResult>;

/**
 * Runs one command, or previews the decision about it, and gives what was kept of its output.
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
  const { output, serial, warnings } = result;
  return { kind: "executed", ...output, serial, warnings };
}
