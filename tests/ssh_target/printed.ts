import { markedHead } from "../../broker/ssh/output.ts";
import type { CommandResult } from "../../broker/ssh/run_command.ts";

/** Output of a command as plain bytes. */
export interface Printed {
  readonly stdout: Uint8Array<ArrayBuffer>;
  readonly stderr: Uint8Array<ArrayBuffer>;
  readonly exitCode: number;
}

/** The output of a command, with a mark if it was truncated. */
export function printedBy({ stdout, stderr, exitCode }: CommandResult): Printed {
  return { stdout: markedHead(stdout), stderr: markedHead(stderr), exitCode };
}
