import type { ToolResult } from "./tool.ts";

/** What a command came to. */
export interface ExecutedView {
  readonly stdout: string;
  readonly stderr: string;
  readonly exitCode: number;
  readonly serial: bigint;
  readonly warnings: readonly string[];
}

/** What a tool that runs commands says about results that nobody has waited for. */
export const UNANSWERED = [
  "When a call ends without an answer, its command may have run all the same. What became of it stands in the audit",
  "log, with exit code or error but without output: look on the server before you repeat what must not happen twice.",
  "Cancelling a call tells its command to end, and so does a lost connection, except within an MCP session over HTTP:",
  "there the command runs on, and a client that resumes the stream gets the result. Let a command that may take longer",
  "than your client waits write to a file on the server, and read that with a later call.",
].join(" ");

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
