import {
  type CommandPolicy,
  type CompiledHost,
  decideCommand,
  type HostPolicy,
  listRules,
  parseCommand,
  toWireDecision,
} from "@gateway/shared/policy";
import { decideRequest, findHostRemedies, type HostQuestion } from "@gateway/shared/policy/analysis";
import { SESSION_MODES } from "@gateway/shared/wire";
import type { SignerConfig } from "@gateway/signer/config";
import { command, type Given, oneOf, optionOf } from "../kit/command.ts";
import { invalid } from "../kit/output.ts";
import { formatWarnings, lintRule } from "../kit/lint_warnings.ts";
import { requireEntry } from "../kit/signer_change.ts";
import { compileSigner, loadHosts, loadSignerFile } from "../kit/signer_file.ts";
import { EMPTY_CELL, formatRow, formatTable } from "../kit/table.ts";
import { formatDecision, formatFacts } from "./decision.ts";
import { explainCluster } from "./explain_cluster.ts";

const TAKES = {
  "--host <name>": "host name",
  "--cluster <name>": "cluster name, instead of --host",
  "--command <text>": "command to decide",
  "--action <text>": "with --cluster: action to decide",
  "--session-mode <mode>": oneOf(SESSION_MODES, "session mode; without --command: decide opening a session"),
  "--caller <cn>": "caller CN (default: any caller that may use the host)",
  "--end-user <user>": "end user",
  "--end-user-groups <groups>": 'groups of the end user, separated by commas; "" for none',
  "--sudo": "run with sudo",
  "--sudo-user <user>": "with --sudo: account (default: root)",
} as const;

type Flags = Given<typeof TAKES>;

/** The width of a policy's name in a list. */
const NAME_WIDTH = 16;

/** Options that apply to hosts only. */
const HOST_FLAGS = ["command", "sessionMode", "sudo", "sudoUser"] as const;

/** Options that apply to a decision only. */
const INTENT_FLAGS = ["caller", "endUser", "endUserGroups", "sudo", "sudoUser"] as const;

/** `policy explain`: the signer's decision, and its rule. */
export const EXPLAIN = command({
  name: "explain",
  summary: "Show the signer's decision and the matching rule.",
  takes: TAKES,
  help: `
Examples:
  broker-ctl policy explain --config /etc/gateway/signer.json --host web01
  broker-ctl policy explain --host web01 --command "ps aux | grep nginx" --caller broker-1 --end-user-groups web,db
  broker-ctl policy explain --host web01 --session-mode shell
  broker-ctl policy explain --cluster prod --action "delete pods web/shop-1" --end-user-groups ops

Decides from the signer's config alone, without the grants, waivers and freezes of a running signer. An action has the
form "<verb> <resource>[.<group>] [<namespace>[/<name>]]" with a plural resource; a list has no name, and - means
no namespace. For a denied command, "To allow" lists all changes of the config that it needs together. The exit code is
0 for every decision; scripts read decision.allowed of --json.
`,
  async run(flags, { workingFolder }) {
    const target = readTarget(flags);
    if (target.kind === "cluster") {
      refuseFlags(flags, HOST_FLAGS, "with --cluster");
      if (flags.action === undefined) refuseFlags(flags, INTENT_FLAGS, "without --action");
      const { action, caller, endUser = "" } = flags;
      const question = { action, caller, endUser, endUserGroups: readGroups(flags.endUserGroups) };
      return explainCluster(await loadSignerFile(flags.config, workingFolder), target.name, question);
    }
    const question = readQuestion(flags);
    const config = await loadHosts(flags.config, workingFolder);
    const source = requireEntry("host", config.hosts, target.name);
    const policy = compileSigner(config);
    const host = policy.hosts.get(target.name);
    if (host === undefined) throw new TypeError("a host of the config is one of the policy");
    const policies = listContributions(config, source);
    const { restricts } = host.commands;
    const about = {
      host: host.name,
      groups: host.groups,
      policies,
      sessions: restricts ? "exec" : "any",
    };
    const lines = [
      ...formatFacts({
        Host: `${host.name} (${host.user} at ${host.addr})`,
        Groups: host.groups.join(", ") || EMPTY_CELL,
      }),
      "Command policies:",
      ...policies.map(({ name, sources, label }) =>
        `  ${formatRow([name, `[${sources.join(",")}]`, label], [NAME_WIDTH, 10])}`
      ),
      ...restricts ? [] : ["  (no restrictions: every command is allowed)"],
      ...formatFacts({
        Sessions: restricts
          ? "exec only, and each command is decided before it runs; shell and pty are denied"
          : "allowed",
      }),
    ];
    if (question === undefined) return { json: about, lines };
    const { command } = question;
    const decision = decideRequest(policy, host, question);
    const steps = listSteps(host, command).map(({ command, verdict: { kind, requireApproval, rule } }) => ({
      command,
      verdict: kind === "denied" ? "denied" : requireApproval ? "approval" : "allowed",
      rule,
      policies: findPlaces(host, policies, rule),
    }));
    const texts = steps.map(({ command }) => command);
    const placesOf = (rule: string) =>
      findPlaces(host, policies, rule).map((name) => name === "<inline>" ? name : `policy ${name}`);
    const isDenied = decision.kind === "denied";
    const changes = isDenied ? findHostRemedies(policy, host, question, { texts, placesOf }) : undefined;
    const findings = isDenied ? [] : lintRule(decision.matchedRule, host.commands);
    const allowed = isDenied ? {} : {
      Runs: decision.forceCommand,
      Prefix: decision.elevationPrefix,
      "Valid for": `${decision.ttlSeconds}s`,
    };
    const rows = steps.map(({ command, verdict, rule, policies }, index) => {
      const places = policies.length === 0 ? "" : `in ${policies.join(", ")}`;
      return [`${index + 1}.`, command, verdict, rule || EMPTY_CELL, places];
    });
    return {
      json: { ...about, ...{ command, steps, decision: toWireDecision(decision), changes, findings } },
      lines: [
        ...[...lines, ""],
        ...formatFacts({ Command: command || "(open a session)" }),
        ...formatTable(["", "", "", "", ""], rows).slice(1).map((line) => `  ${line}`),
        ...formatDecision(decision, { allowed, changes }),
        ...formatWarnings(findings),
      ],
    };
  },
});

export function readTarget(
  { host, cluster, action }: { readonly host?: string; readonly cluster?: string; readonly action?: unknown },
): { readonly kind: "host" | "cluster"; readonly name: string } {
  if (cluster !== undefined && host === undefined) return { kind: "cluster", name: cluster };
  if (host === undefined || cluster !== undefined) throw invalid("Pass either --host or --cluster");
  if (action === undefined) return { kind: "host", name: host };
  throw invalid("Option '--action' has no effect with --host");
}

/** The request in the flags; `undefined` if only the host is to be shown. */
function readQuestion(flags: Flags): HostQuestion | undefined {
  const { command = "", sessionMode, endUserGroups, ...rest } = flags;
  if (flags.command === undefined && sessionMode === undefined) {
    refuseFlags(flags, INTENT_FLAGS, "without --command");
    return undefined;
  }
  if (flags.command === "") throw invalid("Cannot explain an empty command");
  if (flags.sudoUser !== undefined && flags.sudo !== true) {
    throw invalid("Option '--sudo-user' has no effect without --sudo");
  }
  const purpose = sessionMode === undefined ? "oneshot" : "session";
  return { ...rest, endUserGroups: readGroups(endUserGroups), purpose, sessionMode, command };
}

function refuseFlags(flags: Flags, names: readonly (keyof Flags)[], where: string): void {
  const name = names.find((name) => flags[name] !== undefined);
  if (name !== undefined) throw invalid(`Option '${optionOf(name)}' has no effect ${where}`);
}

function readGroups(text: string | undefined): readonly string[] | null {
  if (text === undefined) return null;
  return text.split(",").map((group) => group.trim()).filter((group) => group !== "");
}

/**
 * The command policies of a host in the order of evaluation, each once: those of `_default`, of its groups, and its own
 * if that restricts anything. Each has its name in the library, the groups that bring it, and its contents in a few words.
 */
export function listContributions(
  library: Pick<SignerConfig, "command_policies" | "group_command_policies">,
  { groups = [], command_policy: inline = {} }: HostPolicy,
) {
  const found = new Map<string, string[]>();
  for (const group of new Set(["_default", ...groups])) {
    for (const name of new Set(library.group_command_policies[group])) {
      found.set(name, [...found.get(name) ?? [], group]);
    }
  }
  const { mode = "off", require_approval: approval = [] } = inline;
  const isRestricting = mode !== "off" || approval.length > 0;
  return [
    ...Array.from(found, ([name, sources]) => {
      return { name, sources, label: describePolicy(library.command_policies[name] ?? {}) };
    }),
    ...isRestricting ? [{ name: "<inline>", sources: ["host"], label: describePolicy(inline) }] : [],
  ];
}

/** The names of a host's policies with a rule; for `allowlist:no-match`, of its allowlists. */
function findPlaces(
  { commands: { members } }: CompiledHost,
  policies: readonly { readonly name: string }[],
  rule: string,
): readonly string[] {
  return policies.flatMap(({ name }, index) => {
    const member = members[index];
    const isNamed = member !== undefined &&
      (rule === "allowlist:no-match" ? member.mode === "allowlist" : listRules(member).includes(rule));
    return isNamed ? [name] : [];
  });
}

function describePolicy(policy: CommandPolicy): string {
  const { mode = "", allow = [], deny = [], require_approval: approval = [] } = policy;
  const parts = [
    ...(mode === "allowlist" ? [`allowlist(allow:${allow.length})`] : []),
    ...(mode === "denylist" ? [`denylist(deny:${deny.length})`] : []),
    ...(mode === "allowlist" && deny.length > 0 ? [`deny:${deny.length}`] : []),
    ...(approval.length > 0 ? [`approval:${approval.length}`] : []),
    ...(policy.shell_parse === false ? ["shell_parse:off"] : []),
    ...(policy.enforcement === "audit" ? ["audit"] : []),
  ];
  return parts.length === 0 ? "off" : parts.join(" ");
}

/**
 * The simple commands in a text, their words joined by spaces as patterns match them, each with the verdict of a host's
 * rules before enforcement; none for a host without rules.
 */
export function listSteps({ commands }: CompiledHost, command: string) {
  if (!commands.restricts || command === "") return [];
  const parsed = commands.parses ? parseCommand(command) : undefined;
  if (parsed === undefined || parsed.kind === "refused") {
    return [{ command, verdict: decideCommand(commands, command) }];
  }
  // Each command is already parsed: patterns match its words, which no shell parses again.
  const rules = { ...commands, parses: false };
  return parsed.commands.map((words) => {
    const text = words.join(" ");
    return { command: text, verdict: decideCommand(rules, text) };
  });
}
