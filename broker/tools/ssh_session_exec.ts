import { formatDuration } from "@gateway/shared/text";
import * as z from "@zod/zod";
import { DEFAULT_LIMITS } from "../ssh/limits.ts";
import { SHELL_LIMITS } from "../sessions/shell_session.ts";
import { MAX_FIELD_BYTES } from "./input_guard.ts";
import type { Sessions } from "../sessions/sessions.ts";
import {
  describeOutput,
  EXECUTED_FIELDS,
  outputArguments,
  renderExecuted,
  type ResultPorts,
  UNANSWERED,
} from "./executed.ts";
import type { ToolLimits } from "./limits.ts";
import { keptFor, readOutputWish } from "./stream_view.ts";
import { callerOf, defineTool, reasonArgument, type Tool } from "./tool.ts";

const inputFor = (limits: ToolLimits) =>
  z.strictObject({
    session_id: z.string().describe("As ssh_session_open returned it"),
    command: z.string().describe("The command line, one line of POSIX shell"),
    ...outputArguments(limits),
    reason: reasonArgument,
  });

const output = z.strictObject({
  ...EXECUTED_FIELDS,
  serial: z.bigint().describe(
    "Serial of the certificate that the session was opened with, or of this command's own; exact only in the text",
  ),
});

const descriptionFor = (limits: ToolLimits) =>
  [
    "Run one command in an open session and get stdout, stderr and the exit code; an exit code other than 0 is a",
    "result, not an error of the tool. Directory and variables last from command to command in shell and pty, not in",
    `exec. A command has at most ${MAX_FIELD_BYTES} bytes and, in exec, ${
      formatDuration(DEFAULT_LIMITS.commandMs)
    }.`,
    `In shell and pty it has ${
      formatDuration(SHELL_LIMITS.commandMs)
    }, stands on one line and reads nothing from its input; with pty,`,
    "stderr arrives within stdout. They stop working as soon as the server gets a command policy. After an error",
    "that says so, and after cancelling a call in shell or pty, close the session and open a new one; when a call is",
    "refused, do not retry it in other words.",
    describeOutput(limits),
    UNANSWERED,
  ].join(" ");

/** `ssh_session_exec`: one command in an open session. */
export function createSshSessionExecTool(ports: ResultPorts & { readonly sessions: Sessions }): Tool {
  const { sessions, limits } = ports;
  return defineTool({
    name: "ssh_session_exec",
    title: "Run a command in a session",
    description: descriptionFor(limits),
    annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: false, openWorldHint: true },
    input: inputFor(limits),
    output,
    guarded: ["session_id", "command"],
    async handle({ session_id: sessionId, command, reason, ...args }, context) {
      const wish = readOutputWish(args, limits);
      const request = { ...callerOf(context), sessionId, command, reason, output: keptFor(wish) };
      return renderExecuted(ports, await sessions.exec(request, context.signal), wish);
    },
  });
}
