import { Option } from "commander";
import { AppError } from "@gateway/shared/errors";
import { type CompiledHost, type CompiledPolicy, compilePolicy } from "@gateway/shared/policy/compile";
import { toWireDecision } from "@gateway/shared/policy/ssh";
import { quoteText } from "@gateway/shared/quote";
import { SESSION_MODES, type SessionMode } from "@gateway/shared/wire/sign";
import { once } from "../arguments.ts";
import type { AddCommand, CommandContext } from "../context.ts";
import { explainIntent, type OpenIntent } from "../explain/decide.ts";
import { formatDecision, formatHost, nameVerdict } from "../explain/format.ts";
import { listContributions } from "../explain/policies.ts";
import { type CommandResult, HintedError } from "../output.ts";
import { loadSignerFile } from "../signer_file.ts";

interface ExplainFlags {
  readonly config?: string;
  readonly host: string;
  readonly command?: string;
  readonly sessionMode?: SessionMode;
  readonly caller?: string;
  readonly endUser?: string;
  readonly endUserGroups?: string;
  readonly sudo?: boolean;
  readonly sudoUser?: string;
  readonly pty?: boolean;
  readonly fileTransfer?: boolean;
}

/** What only matters to a decision. */
const INTENT_FLAGS = {
  caller: "--caller",
  endUser: "--end-user",
  endUserGroups: "--end-user-groups",
  sudo: "--sudo",
  sudoUser: "--sudo-user",
  pty: "--pty",
  fileTransfer: "--file-transfer",
} as const satisfies Partial<Record<keyof ExplainFlags, string>>;

const EXAMPLES = `
Examples:
  broker-ctl policy explain --config /etc/gateway/signer.json --host web01
  broker-ctl policy explain --host web01 --command "systemctl restart nginx" --sudo
  broker-ctl policy explain --host web01 --command "ps aux | grep nginx" --caller broker-1 --end-user-groups web,db
  broker-ctl policy explain --host web01 --session-mode shell

Reads the signer's config and asks nobody: grants, waivers and freezes of a running signer are not in it.
Without --caller it takes a caller that may use the host; --end-user-groups "" is a user in no group.
Exit code 0 whatever the decision; a script reads decision.allowed of --json.
`;

/** `policy explain`: what the signer would decide, and by which rule. */
export const addExplain: AddCommand = (policy, context) => {
  policy.command("explain")
    .description("Say what the signer would decide, and by which rule.")
    .requiredOption("--host <name>", "the host", once)
    .option("--command <text>", "the command to decide", once)
    .addOption(
      new Option("--session-mode <mode>", "as a session, not one command; without --command: opening it")
        .choices(SESSION_MODES),
    )
    .option("--caller <cn>", "who asks", once)
    .option("--end-user <user>", "for whom", once)
    .option("--end-user-groups <groups>", "the end user's groups, with commas", once)
    .option("--sudo", "elevated")
    .option("--sudo-user <user>", "elevated to this account (default: root)", once)
    .option("--pty", "with a terminal")
    .option("--file-transfer", "as part of a file transfer")
    .addHelpText("after", EXAMPLES)
    .action((_flags, command) =>
      context.run(command, ["config"], () => explain(command.optsWithGlobals() as ExplainFlags, context))
    );
};

async function explain(flags: ExplainFlags, context: CommandContext): Promise<CommandResult> {
  const intent = readIntent(flags);
  const config = await loadSignerFile(flags.config, context.workingFolder);
  const compiled = compilePolicy(config);
  if (compiled.kind === "invalid") {
    const problems = compiled.problems.join("\n  ");
    throw new AppError("invalid_config", `Cannot use signer config: ${problems}`);
  }
  const host = findHost(compiled.policy, flags.host);
  const source = config.hosts[host.name];
  const contributions = source === undefined ? [] : listContributions(config, source);
  const about = {
    host: host.name,
    groups: host.groups,
    policies: contributions,
    sessions: host.commands.restricts ? "exec" : "any",
  };
  if (intent === undefined) return { json: about, lines: formatHost(host, contributions) };
  const explanation = explainIntent(compiled.policy, host, intent);
  const { decision, steps } = explanation;
  return {
    json: {
      ...about,
      command: intent.command,
      steps: steps.map(({ command, verdict }) => ({
        command,
        verdict: nameVerdict(verdict),
        rule: verdict.rule,
      })),
      decision: toWireDecision(decision),
    },
    lines: [...formatHost(host, contributions), ...formatDecision(intent, explanation)],
  };
}

/**
 * The intent that the flags describe, or nothing when they ask about the host alone.
 *
 * @throws {AppError} `invalid_request` for flags that would have no effect
 */
function readIntent(flags: ExplainFlags): OpenIntent | undefined {
  const { command, sessionMode } = flags;
  if (command === undefined && sessionMode === undefined) {
    refuseIntentFlags(flags);
    return undefined;
  }
  if (command === "") throw new AppError("invalid_request", "Cannot explain an empty command");
  if (flags.sudoUser !== undefined && flags.sudo !== true) {
    throw new AppError("invalid_request", "Option '--sudo-user' means nothing without --sudo");
  }
  return {
    ...(flags.caller !== undefined && { caller: flags.caller }),
    endUser: flags.endUser ?? "",
    endUserGroups: readGroups(flags.endUserGroups),
    host: flags.host,
    role: "target",
    purpose: sessionMode === undefined ? "oneshot" : "session",
    sessionMode: sessionMode ?? "",
    command: command ?? "",
    ttlSeconds: 0,
    sudo: flags.sudo ?? false,
    sudoUser: flags.sudoUser ?? "",
    pty: flags.pty ?? false,
    fileTransfer: flags.fileTransfer ?? false,
    contentSha256: "",
  };
}

function refuseIntentFlags(flags: ExplainFlags): void {
  for (const [key, flag] of Object.entries(INTENT_FLAGS) as [keyof typeof INTENT_FLAGS, string][]) {
    if (flags[key] === undefined) continue;
    throw new AppError("invalid_request", `Option '${flag}' means nothing without --command`);
  }
}

function readGroups(text: string | undefined): readonly string[] | null {
  if (text === undefined) return null;
  return text.split(",").map((group) => group.trim()).filter((group) => group !== "");
}

function findHost(policy: CompiledPolicy, name: string): CompiledHost {
  const host = policy.hosts.get(name);
  if (host !== undefined) return host;
  const error = new AppError("unknown_host", `Cannot explain host ${quoteText(name)}: unknown host`);
  throw new HintedError(error, "broker-ctl host list shows the hosts");
}
