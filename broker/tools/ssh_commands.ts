import { formatDuration } from "@gateway/shared/text";
import { SESSION_MODES } from "@gateway/shared/wire";
import * as z from "@zod/zod";
import type { Execute } from "../request/execute.ts";
import { SESSION_LIMITS } from "../sessions/registry.ts";
import type { Sessions } from "../sessions/sessions.ts";
import { SHELL_LIMITS } from "../sessions/connect_session.ts";
import { DEFAULT_LIMITS } from "../ssh/failures.ts";
import { decisionView, renderDecision, viewDecision } from "./dry_run.ts";
import {
  describeOutput,
  EXECUTED_FIELDS,
  keptFor,
  outputArguments,
  readOutputWish,
  renderExecuted,
  type ResultPorts,
  UNANSWERED,
} from "./executed.ts";
import {
  callerOf,
  CHANGE,
  defineTool,
  MAX_FIELD_BYTES,
  reasonArgument,
  serverArgument,
  type Tool,
} from "./tool.ts";

const COMMAND_TIME = formatDuration(DEFAULT_LIMITS.commandMs);

export function createSshExecuteTool(ports: ResultPorts & { readonly execute: Execute }): Tool {
  const { limits } = ports;
  return defineTool({
    name: "ssh_execute",
    title: "Run a command on a server",
    description: [
      "Run one command on a server and get stdout, stderr and the exit code. This is the tool of choice for single",
      "commands; nothing stays open afterwards. Each call gets a certificate that is locked to exactly this command.",
      "An exit code other than 0 is a result, not an error of the tool: read it. sudo and pty work only on servers",
      "whose flags in ssh_list_servers allow them; when a call is refused by policy or needs approval, do not retry",
      "it in other words, report it. With pty, stderr arrives within stdout. dry_run shows the policy's decision and",
      "the rule behind it without running anything.",
      `A command is one line of at most ${MAX_FIELD_BYTES} bytes and may take ${COMMAND_TIME}.`,
      describeOutput(limits),
      UNANSWERED,
    ].join(" "),
    annotations: CHANGE,
    input: z.strictObject({
      server: serverArgument,
      command: z.string().describe("The command line, one line of POSIX shell"),
      ttl_seconds: z.int().optional().describe(
        "Life of the certificate; leave it out for the host's maximum, to which more is cut silently",
      ),
      sudo: z.boolean().optional().describe("Run it through sudo -n; only where allow_sudo is true"),
      sudo_user: z.string().optional().describe("Account to run it as with sudo; root when absent"),
      pty: z.boolean().optional().describe("Give it a terminal; only where allow_pty is true"),
      dry_run: z.boolean().optional().describe("Only tell whether the policy would allow it; nothing runs"),
      ...outputArguments(limits),
      reason: reasonArgument,
    }),
    output: z.strictObject({
      ...EXECUTED_FIELDS,
      serial: z.bigint().describe(
        "Serial of the certificate; finds the command in the audit logs; exact only in the text",
      ),
      decision: decisionView.optional().describe("Only with dry_run"),
    }),
    async handle(
      { server: host, command, ttl_seconds: ttlSeconds = 0, dry_run: dryRun = false, ...args },
      context,
    ) {
      const wish = readOutputWish(args, limits);
      const { sudo = false, sudo_user: sudoUser = "", pty = false, reason } = args;
      const { askHuman, signal } = context;
      const request = {
        ...callerOf(context),
        host,
        command,
        ttlSeconds,
        sudo,
        sudoUser,
        pty,
        dryRun,
        reason,
      };
      const result = await ports.execute({ ...request, output: keptFor(wish), askHuman }, signal);
      if (result.kind === "executed") return renderExecuted(ports, result, wish);
      const decision = viewDecision(result.decision, command);
      const structured = { stdout: "", stderr: "", exit_code: 0, serial: 0n, decision };
      return { text: renderDecision(decision), structured };
    },
  });
}

interface SessionPorts extends ResultPorts {
  readonly sessions: Sessions;
}

export function createSshSessionOpenTool({ sessions, limits }: Omit<SessionPorts, "random">): Tool {
  return defineTool({
    name: "ssh_session_open",
    title: "Open a session on a server",
    description: [
      "Open a connection to a server that stays open, for many commands in a row or for state that they share; for a",
      "single command use ssh_execute. Modes: exec (each command for itself, several may run at once; directory and",
      'variables do not last to the next command, so write "cd DIR && COMMAND"; on some servers with a command policy',
      "each command also has a connection of its own, and the first may be denied although the session is open), shell (one",
      "/bin/sh that keeps directory and variables), pty (the same with a terminal, only where allow_pty is true).",
      "With sudo, exec elevates each command and shell and pty elevate the whole shell. Every command is checked again",
      "against the policy and the way to the server as they are then; servers with a command policy accept exec only,",
      "and what needs a human's approval goes through ssh_execute. Close the session when you are done: it closes by",
      `itself after ${limits.sessionIdleSeconds} s without commands, and ${limits.sessionMaxSeconds} s after it was opened. You may have`,
      `${SESSION_LIMITS.perCaller} sessions.`,
    ].join(" "),
    annotations: { ...CHANGE, destructiveHint: false },
    input: z.strictObject({
      server: serverArgument,
      // The handler rejects an unknown mode in words. The schema lists the modes.
      mode: z.string().meta({ enum: SESSION_MODES }).optional().describe(
        "exec (default): commands apart from each other; shell: one shell that keeps its state; pty: the same with a terminal",
      ),
      ttl_seconds: z.int().optional().describe(
        "Life of the certificate that opens the connection; leave it out for the host's maximum",
      ),
      sudo: z.boolean().optional().describe("Elevate through sudo -n; only where allow_sudo is true"),
      sudo_user: z.string().optional().describe("Account to elevate to with sudo; root when absent"),
      reason: reasonArgument,
    }),
    output: z.strictObject({
      session_id: z.string().describe("Pass it to ssh_session_exec and ssh_session_close"),
      serial: z.bigint().describe(
        "Serial of the certificate, 0 where each command gets a certificate of its own; finds the session in the audit " +
          "logs; exact only in the text",
      ),
    }),
    async handle({ server: host, mode = "", ttl_seconds: ttlSeconds = 0, reason, ...args }, context) {
      const { sudo = false, sudo_user: sudoUser = "" } = args;
      const request = { ...callerOf(context), host, mode, ttlSeconds, sudo, sudoUser, reason };
      const { sessionId, serial = 0n } = await sessions.open(request, context.signal);
      return {
        text: `session_id=${sessionId} serial=${serial}`,
        structured: { session_id: sessionId, serial },
      };
    },
  });
}

export function createSshSessionExecTool(ports: SessionPorts): Tool {
  const { sessions, limits } = ports;
  const shellTime = formatDuration(SHELL_LIMITS.commandMs);
  return defineTool({
    name: "ssh_session_exec",
    title: "Run a command in a session",
    description: [
      "Run one command in an open session and get stdout, stderr and the exit code; an exit code other than 0 is a",
      "result, not an error of the tool. Directory and variables last from command to command in shell and pty, not in",
      `exec. A command has at most ${MAX_FIELD_BYTES} bytes and, in exec, ${COMMAND_TIME}.`,
      `In shell and pty it has ${shellTime}, stands on one line and reads nothing from its input; with pty,`,
      "stderr arrives within stdout. They stop working as soon as the server gets a command policy. After an error",
      "that says so, and after cancelling a call in shell or pty, close the session and open a new one; when a call is",
      "refused, do not retry it in other words.",
      describeOutput(limits),
      UNANSWERED,
    ].join(" "),
    annotations: CHANGE,
    input: z.strictObject({
      session_id: z.string().describe("As ssh_session_open returned it"),
      command: z.string().describe("The command line, one line of POSIX shell"),
      ...outputArguments(limits),
      reason: reasonArgument,
    }),
    output: z.strictObject({
      ...EXECUTED_FIELDS,
      serial: z.bigint().describe(
        "Serial of the certificate that the session was opened with, or of this command's own; exact only in the text",
      ),
    }),
    async handle({ session_id: sessionId, command, reason, ...args }, context) {
      const wish = readOutputWish(args, limits);
      const request = { ...callerOf(context), sessionId, command, reason, output: keptFor(wish) };
      return renderExecuted(ports, await sessions.exec(request, context.signal), wish);
    },
  });
}

export function createSshSessionCloseTool({ sessions }: Pick<SessionPorts, "sessions">): Tool {
  return defineTool({
    name: "ssh_session_close",
    title: "Close a session",
    description: "Close a session that you opened. A command that still runs in it is interrupted.",
    annotations: { ...CHANGE, idempotentHint: true, openWorldHint: false },
    input: z.strictObject({ session_id: z.string().describe("As ssh_session_open returned it") }),
    output: z.strictObject({ ok: z.boolean() }),
    async handle({ session_id: sessionId }, { caller, signal }) {
      await sessions.close({ caller, sessionId }, signal);
      return { text: "closed", structured: { ok: true } };
    },
  });
}
