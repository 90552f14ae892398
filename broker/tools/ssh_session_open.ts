import { SESSION_MODES } from "@gateway/shared/wire";
import * as z from "@zod/zod";
import { SESSION_LIMITS } from "../sessions/registry.ts";
import type { Sessions } from "../sessions/sessions.ts";
import type { ToolLimits } from "./limits.ts";
import { callerOf, defineTool, reasonArgument, type Tool } from "./tool.ts";

const input = z.strictObject({
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

const output = z.strictObject({
  session_id: z.string().describe("Pass it to ssh_session_exec and ssh_session_close"),
  serial: z.bigint().describe(
    "Serial of the certificate, 0 where each command gets a certificate of its own; finds the session in the audit " +
      "logs; exact only in the text",
  ),
});

const descriptionFor = ({ sessionIdleSeconds, sessionMaxSeconds }: ToolLimits) =>
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
    description: descriptionFor(limits),
    annotations: { readOnlyHint: false, destructiveHint: false, idempotentHint: false, openWorldHint: true },
    input,
    output,
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
