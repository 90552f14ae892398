/**
 * The result of running a program.
 *
 * @module
 */
import { type Call, type Finding, ToolFailure } from "./define_tool.ts";
import type { ProgramResult } from "./run_program.ts";

/**
 * The outputs; those of a stopped program contain what it had written by then.
 *
 * @param command for the heading
 * @param program its name
 * @throws {ToolFailure} when the program is missing
 */
export function describeRun(
  command: string,
  program: string,
  result: ProgramResult,
  { seconds }: Call,
): Finding {
  if (result.kind === "missing") {
    throw new ToolFailure(`The program ${program} is not installed, or the service may not run it`);
  }
  const { stopped, code, stdout, stderr } = result;
  const end = stopped === "signal"
    ? `stopped after ${seconds} s`
    : stopped === "output"
    ? "stopped, too much output"
    : `exit code ${code}`;
  return {
    // A program that writes too much has answered; one that does not end has not.
    ok: stopped === "output" || (stopped === undefined && code === 0),
    title: `${command}: ${end}`,
    body:
      [stdout.trimEnd(), stderr.trim() === "" ? "" : `stderr:\n${stderr.trimEnd()}`].filter((part) =>
        part !== ""
      )
        .join("\n") || "(no output)",
  };
}
