import { formatDuration } from "@gateway/shared/text";
import * as z from "@zod/zod";
import { DEFAULT_LIMITS } from "../ssh/limits.ts";
import { callerOf, defineTool, MAX_FIELD_BYTES, reasonArgument, type Tool, type ToolLimits } from "./tool.ts";
import type { Execute } from "../request/execute.ts";
import {
  describeOutput,
  EXECUTED_FIELDS,
  outputArguments,
  renderExecuted,
  type ResultPorts,
  UNANSWERED,
} from "./executed.ts";
import { keptFor, readOutputWish } from "./stream_view.ts";
import { decisionView, renderDecision, viewDecision } from "./dry_run.ts";

const inputFor = (limits: ToolLimits) =>
  z.strictObject({
    server: z.string().describe("Host name as ssh_list_servers shows it"),
    command: z.string().describe("The command line, one line of POSIX shell"),
    ttl_seconds: z.int().optional()
      .describe(
        "Life of the certificate; leave it out for the host's maximum, to which more is cut silently",
      ),
    sudo: z.boolean().optional().describe("Run it through sudo -n; only where allow_sudo is true"),
    sudo_user: z.string().optional().describe("Account to run it as with sudo; root when absent"),
    pty: z.boolean().optional().describe("Give it a terminal; only where allow_pty is true"),
    dry_run: z.boolean().optional().describe("Only tell whether the policy would allow it; nothing runs"),
    ...outputArguments(limits),
    reason: reasonArgument,
  });

const output = z.strictObject({
  ...EXECUTED_FIELDS,
  serial: z.bigint().describe(
    "Serial of the certificate; finds the command in the audit logs; exact only in the text",
  ),
  decision: decisionView.optional().describe("Only with dry_run"),
});

const descriptionFor = (limits: ToolLimits) =>
  [
    "Run one command on a server and get stdout, stderr and the exit code. This is the tool of choice for single",
    "commands; nothing stays open afterwards. Each call gets a certificate that is locked to exactly this command.",
    "An exit code other than 0 is a result, not an error of the tool: read it. sudo and pty work only on servers",
    "whose flags in ssh_list_servers allow them; when a call is refused by policy or needs approval, do not retry",
    "it in other words, report it. With pty, stderr arrives within stdout. dry_run shows the policy's decision and",
    "the rule behind it without running anything.",
    `A command is one line of at most ${MAX_FIELD_BYTES} bytes and may take ${
      formatDuration(DEFAULT_LIMITS.commandMs)
    }.`,
    describeOutput(limits),
    UNANSWERED,
  ].join(" ");

export interface SshExecutePorts extends ResultPorts {
  readonly execute: Execute;
}

/** `ssh_execute`: one command, with a certificate made for it. */
export function createSshExecuteTool(ports: SshExecutePorts): Tool {
  const { limits } = ports;
  return defineTool({
    name: "ssh_execute",
    title: "Run a command on a server",
    description: descriptionFor(limits),
    annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: false, openWorldHint: true },
    input: inputFor(limits),
    output,
    guarded: ["server", "command", "sudo_user"],
    async handle(args, context) {
      const wish = readOutputWish(args, limits);
      const result = await ports.execute({
        ...callerOf(context),
        host: args.server,
        command: args.command,
        ttlSeconds: args.ttl_seconds ?? 0,
        sudo: args.sudo ?? false,
        sudoUser: args.sudo_user ?? "",
        pty: args.pty ?? false,
        dryRun: args.dry_run ?? false,
        reason: args.reason,
        output: keptFor(wish),
        askHuman: context.askHuman,
      }, context.signal);
      if (result.kind === "executed") return renderExecuted(ports, result, wish);
      const decision = viewDecision(result.decision, args.command);
      const structured = { stdout: "", stderr: "", exit_code: 0, serial: 0n, decision };
      return { text: renderDecision(decision), structured };
    },
  });
}
