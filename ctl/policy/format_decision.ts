import type { CompiledHost, SshDecision } from "@gateway/shared/policy";
import { EMPTY_CELL, formatRow, formatTable } from "../kit/table.ts";
import type { Explanation, OpenIntent, StepVerdict } from "./decide.ts";
import type { Contribution } from "./policies.ts";

const NAME_WIDTH = 16;

/** What holds for a host, whatever the command. */
export function formatHost(host: CompiledHost, contributions: readonly Contribution[]): readonly string[] {
  const { restricts } = host.commands;
  return [
    `Host:      ${host.name} (${host.user} at ${host.addr})`,
    `Groups:    ${host.groups.length === 0 ? EMPTY_CELL : host.groups.join(", ")}`,
    "Command policies:",
    ...contributions.map(({ name, via, label }) =>
      `  ${formatRow([name, `[${via}]`, label], [NAME_WIDTH, 10])}`
    ),
    ...(restricts ? [] : ["  (none restricts: any command is allowed)"]),
    `Sessions:  ${
      restricts ? "exec only, each command decided before it runs; shell and pty refused" : "allowed"
    }`,
  ];
}

/** What is decided about an intent. */
export function formatDecision(intent: OpenIntent, { decision, steps }: Explanation): readonly string[] {
  const table = formatTable(["", "", "", ""], steps.map(formatStep));
  return [
    "",
    `Command:   ${intent.command === "" ? "(opening of a session)" : intent.command}`,
    ...(steps.length === 0 ? [] : table.slice(1).map((line) => `  ${line}`)),
    `Decision:  ${describeDecision(decision)}`,
    ...(decision.kind === "denied" ? [`Reason:    ${decision.reason}`] : describeCertificate(decision)),
  ];
}

/** The verdict in capitals, and the rule behind it. */
function describeDecision(decision: SshDecision): string {
  const rule = `(${decision.matchedRule || EMPTY_CELL})`;
  if (decision.kind === "denied") return `DENIED ${rule}`;
  const { wouldDeny, wouldRequireApproval } = decision;
  if (wouldDeny || wouldRequireApproval) {
    const would = [
      ...(wouldDeny ? ["would deny"] : []),
      ...(wouldRequireApproval ? ["would require approval"] : []),
    ];
    return `ALLOWED with audit warning (${would.join(" and ")}) ${rule}`;
  }
  return decision.requireApproval ? `ALLOWED, requires approval ${rule}` : `ALLOWED ${rule}`;
}

function describeCertificate(decision: Extract<SshDecision, { kind: "allowed" }>): readonly string[] {
  const { forceCommand, elevationPrefix, ttlSeconds } = decision;
  return [
    ...(forceCommand === "" ? [] : [`Runs:      ${forceCommand}`]),
    ...(elevationPrefix === "" ? [] : [`Prefix:    ${elevationPrefix}`]),
    `Valid for: ${ttlSeconds}s`,
  ];
}

function formatStep({ command, verdict }: StepVerdict, index: number): readonly string[] {
  return [`${index + 1}.`, command, nameVerdict(verdict), verdict.rule || EMPTY_CELL];
}

/** What the rules say of one command, in a word. */
export function nameVerdict({ kind, requireApproval }: StepVerdict["verdict"]): string {
  if (kind === "denied") return "denied";
  return requireApproval ? "approval" : "allowed";
}
