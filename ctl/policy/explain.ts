import { Option } from "commander";
import { AppError } from "@gateway/shared/errors";
import {
  type CompiledHost,
  type CompiledPolicy,
  compilePolicy,
  toWireDecision,
} from "@gateway/shared/policy";
import { quoteText } from "@gateway/shared/text";
import { SESSION_MODES, type SessionMode } from "@gateway/shared/wire";
import { once } from "../kit/arguments.ts";
import type { AddCommand, CommandContext } from "../kit/context.ts";
import { explainIntent, type OpenIntent } from "./decide.ts";
import { formatDecision, formatHost, nameVerdict } from "./format_decision.ts";
import { listContributions } from "./policies.ts";
import { type CommandResult, HintedError } from "../kit/output.ts";
import { loadSignerHosts } from "../kit/signer_file.ts";
import { explainCluster } from "./explain_cluster.ts";

interface ExplainFlags {
  readonly config?: string;
  readonly host?: string;
  readonly cluster?: string;
  readonly action?: string;
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

/** What a cluster knows nothing of. */
const HOST_FLAGS = {
  command: "--command",
  sessionMode: "--session-mode",
  sudo: "--sudo",
  sudoUser: "--sudo-user",
  pty: "--pty",
  fileTransfer: "--file-transfer",
} as const satisfies Partial<Record<keyof ExplainFlags, string>>;

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
  broker-ctl policy explain --cluster prod --action "delete pods web/shop-1" --end-user-groups ops

Reads the signer's config and asks nobody: grants, waivers and freezes of a running signer are not in it.
Without --caller it takes a caller that may use the host; --end-user-groups "" is a user in no group.
An action on a cluster is a verb, a resource in its plural with its group or without, and <namespace>/<name>; a list
has no name, and - stands for the namespace of what has none.
Exit code 0 whatever the decision; a script reads decision.allowed of --json.
`;

/** `policy explain`: what the signer would decide, and by which rule. */
export const addExplain: AddCommand = (policy, context) => {
  policy.command("explain")
    .description("Say what the signer would decide, and by which rule.")
    .option("--host <name>", "the host", once)
    .option("--cluster <name>", "the cluster, in the place of a host", once)
    .option("--command <text>", "the command to decide", once)
    .option("--action <text>", "the action on the cluster to decide", once)
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
  const target = readTarget(flags);
  if (target.kind === "cluster") {
    refuseFlags(flags, HOST_FLAGS, "to a cluster");
    if (flags.action === undefined) refuseFlags(flags, INTENT_FLAGS, "without --action");
    const { action, caller, endUser = "", config } = flags;
    const endUserGroups = readGroups(flags.endUserGroups);
    const question = { cluster: target.name, action, caller, endUser, endUserGroups };
    return await explainCluster(question, { config, workingFolder: context.workingFolder });
  }
  const intent = readIntent(flags, target.name);
  const config = await loadSignerHosts(flags.config, context.workingFolder);
  const compiled = compilePolicy(config);
  if (compiled.kind === "invalid") {
    const problems = compiled.problems.join("\n  ");
    throw new AppError("invalid_config", `Cannot use signer config: ${problems}`);
  }
  const host = findHost(compiled.policy, target.name);
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

/** @throws {AppError} `invalid_request` for none or both, and an action on a host */
function readTarget({ host, cluster, action }: ExplainFlags): { kind: "host" | "cluster"; name: string } {
  if (cluster !== undefined && host === undefined) return { kind: "cluster", name: cluster };
  if (host === undefined || cluster !== undefined) {
    throw new AppError("invalid_request", "Name one target: --host or --cluster");
  }
  if (action !== undefined) {
    throw new AppError("invalid_request", "Option '--action' means nothing to a host");
  }
  return { kind: "host", name: host };
}

/**
 * The intent that the flags describe, or nothing when they ask about the host alone.
 *
 * @throws {AppError} `invalid_request` for flags that would have no effect
 */
function readIntent(flags: ExplainFlags, host: string): OpenIntent | undefined {
  const { command, sessionMode } = flags;
  if (command === undefined && sessionMode === undefined) {
    refuseFlags(flags, INTENT_FLAGS, "without --command");
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
    host,
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

function refuseFlags(
  flags: ExplainFlags,
  names: Partial<Record<keyof ExplainFlags, string>>,
  where: string,
): void {
  for (const [key, flag] of Object.entries(names) as [keyof ExplainFlags, string][]) {
    if (flags[key] === undefined) continue;
    throw new AppError("invalid_request", `Option '${flag}' means nothing ${where}`);
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
