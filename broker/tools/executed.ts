import type { ToolResult } from "./tool.ts";

/** What a command came to. */
export interface ExecutedView {
  readonly stdout: string;
  readonly stderr: string;
  readonly exitCode: number;
  readonly serial: bigint;
  readonly warnings: readonly string[];
}

/** The result of a tool that has run a command. */
export function renderExecuted({ stdout, stderr, exitCode, serial, warnings }: ExecutedView): ToolResult {
  const structured = { stdout, stderr, exit_code: exitCode, serial };
  return {
    text: stdout + (stderr === "" ? "" : `\n[stderr]\n${stderr}`) +
      warnings.map((warning) => `\n[warning] ${warning}`).join("") +
      `\n[exit=${exitCode} serial=${serial}]`,
    structured: warnings.length === 0 ? structured : { ...structured, warnings },
  };
}
