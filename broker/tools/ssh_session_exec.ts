import { z } from "@zod/zod";
import type { Sessions } from "../sessions/sessions.ts";
import { renderExecuted, UNANSWERED } from "./executed.ts";
import { callerOf, defineTool, reasonArgument, type Tool } from "./tool.ts";

const input = z.strictObject({
  session_id: z.string().describe("As ssh_session_open returned it"),
  command: z.string().describe("The command line, one line of POSIX shell"),
  reason: reasonArgument,
});

const output = z.strictObject({
  stdout: z.string(),
  stderr: z.string(),
  exit_code: z.int().describe("Exit status; 128 plus the number when a signal ended it"),
  serial: z.bigint().describe("Serial of the certificate that the session was opened with"),
  warnings: z.array(z.string()).optional().describe("What the policy objects to but does not yet forbid"),
});

const description = [
  "Run one command in an open session and get stdout, stderr and the exit code; an exit code other than 0 is a",
  "result, not an error of the tool. Directory and variables last from command to command in shell and pty, not in",
  "exec. In shell and pty a command has 2 minutes, stands on one line and reads nothing from its input; with pty,",
  "stderr arrives within stdout. They stop working as soon as the server gets a command policy. After an error",
  "that says so, and after cancelling a call in shell or pty, close the session and open a new one; when a call is",
  "refused, do not retry it in other words.",
  UNANSWERED,
].join(" ");

/** `ssh_session_exec`: one command in an open session. */
export function createSshSessionExecTool({ sessions }: { readonly sessions: Sessions }): Tool {
  return defineTool({
    name: "ssh_session_exec",
    title: "Run a command in a session",
    description,
    annotations: { destructiveHint: true, idempotentHint: false, readOnlyHint: false },
    input,
    output,
    guarded: ["session_id", "command"],
    async handle({ session_id: sessionId, command, reason }, context) {
      return renderExecuted(
        await sessions.exec({ ...callerOf(context), sessionId, command, reason }, context.signal),
      );
    },
  });
}
