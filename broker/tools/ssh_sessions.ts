import { SESSION_MODES } from "@gateway/shared/wire";
import * as z from "@zod/zod";
import { SESSION_LIMITS } from "../sessions/registry.ts";
import type { Sessions } from "../sessions/sessions.ts";
import { callerOf, defineTool, MAX_FIELD_BYTES, reasonArgument, type Tool, type ToolLimits } from "./tool.ts";
import { formatDuration } from "@gateway/shared/text";
import { DEFAULT_LIMITS } from "../ssh/limits.ts";
import { SHELL_LIMITS } from "../sessions/shell_session.ts";
import {
  describeOutput,
  EXECUTED_FIELDS,
  outputArguments,
  renderExecuted,
  type ResultPorts,
  UNANSWERED,
} from "./executed.ts";
import { keptFor, readOutputWish } from "./stream_view.ts";

const openInput = z.strictObject({
  server: z.string().describe("Host name as ssh_list_servers shows it"),
  // The handler names an unknown mode in words; the schema shows which there are.
  mode: z.string().meta({ enum: SESSION_MODES }).optional().describe(
    "exec (default): commands apart from each other; shell: one shell that keeps its state; pty: the same with a terminal",
  ),
  ttl_seconds: z.int().optional().describe(
    "Life of the certificate that opens the connection; leave it out for the host's maximum",
  ),
  sudo: z.boolean().optional().describe("Elevate through sudo -n; only where allow_sudo is true"),
  sudo_user: z.string().optional().describe("Account to elevate to with sudo; root when absent"),
  reason: reasonArgument,
});

const openOutput = z.strictObject({
  session_id: z.string().describe("Pass it to ssh_session_exec and ssh_session_close"),
  serial: z.bigint().describe(
    "Serial of the certificate, 0 where each command gets a certificate of its own; finds the session in the audit " +
      "logs; exact only in the text",
  ),
});

const describeOpen = ({ sessionIdleSeconds, sessionMaxSeconds }: ToolLimits) =>
  [
    "Open a connection to a server that stays open, for many commands in a row or for state that they share; for a",
    "single command use ssh_execute. Modes: exec (each command for itself, several may run at once; directory and",
    'variables do not last to the next command, so write "cd DIR && COMMAND"; on some servers with a command policy',
    "each command also has a connection of its own, and the first may be denied although the session is open), shell (one",
    "/bin/sh that keeps directory and variables), pty (the same with a terminal, only where allow_pty is true).",
    "With sudo, exec elevates each command and shell and pty elevate the whole shell. Every command is checked again",
    "against the policy and the way to the server as they are then; servers with a command policy accept exec only,",
    "and what needs a human's approval goes through ssh_execute. Close the session when you are done: it closes by",
    `itself after ${sessionIdleSeconds} s without commands, and ${sessionMaxSeconds} s after it was opened. You may have`,
    `${SESSION_LIMITS.perCaller} sessions.`,
  ].join(" ");

/** `ssh_session_open`: a connection that stays open. */
export function createSshSessionOpenTool(
  { sessions, limits }: { readonly sessions: Sessions; readonly limits: ToolLimits },
): Tool {
  return defineTool({
    name: "ssh_session_open",
    title: "Open a session on a server",
    description: describeOpen(limits),
    annotations: { readOnlyHint: false, destructiveHint: false, idempotentHint: false, openWorldHint: true },
    input: openInput,
    output: openOutput,
    guarded: ["server", "mode", "sudo_user"],
    async handle(
      { server, mode = "", ttl_seconds, sudo = false, sudo_user: sudoUser = "", reason },
      context,
    ) {
      const { sessionId, serial } = await sessions.open({
        ...callerOf(context),
        host: server,
        mode,
        ttlSeconds: ttl_seconds ?? 0,
        sudo,
        sudoUser,
        reason,
      }, context.signal);
      return {
        text: `session_id=${sessionId} serial=${serial ?? 0n}`,
        structured: { session_id: sessionId, serial: serial ?? 0n },
      };
    },
  });
}

const execInputFor = (limits: ToolLimits) =>
  z.strictObject({
    session_id: z.string().describe("As ssh_session_open returned it"),
    command: z.string().describe("The command line, one line of POSIX shell"),
    ...outputArguments(limits),
    reason: reasonArgument,
  });

const execOutput = z.strictObject({
  ...EXECUTED_FIELDS,
  serial: z.bigint().describe(
    "Serial of the certificate that the session was opened with, or of this command's own; exact only in the text",
  ),
});

const describeExec = (limits: ToolLimits) =>
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
    description: describeExec(limits),
    annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: false, openWorldHint: true },
    input: execInputFor(limits),
    output: execOutput,
    guarded: ["session_id", "command"],
    async handle({ session_id: sessionId, command, reason, ...args }, context) {
      const wish = readOutputWish(args, limits);
      const request = { ...callerOf(context), sessionId, command, reason, output: keptFor(wish) };
      return renderExecuted(ports, await sessions.exec(request, context.signal), wish);
    },
  });
}

export function createSshSessionCloseTool({ sessions }: { readonly sessions: Sessions }): Tool {
  return defineTool({
    name: "ssh_session_close",
    title: "Close a session",
    description: "Close a session that you opened. A command that still runs in it is interrupted.",
    annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: true, openWorldHint: false },
    input: z.strictObject({ session_id: z.string().describe("As ssh_session_open returned it") }),
    output: z.strictObject({ ok: z.boolean() }),
    guarded: ["session_id"],
    async handle({ session_id: sessionId }, { caller, signal }) {
      await sessions.close({ caller, sessionId }, signal);
      return { text: "closed", structured: { ok: true } };
    },
  });
}
