import type { ClusterDecision, ClusterPolicy, ClusterRule, CompiledCluster } from "@gateway/shared/policy";
import { EMPTY_CELL, formatTable } from "../table.ts";

/** What holds for a cluster, whatever the action. */
export function formatCluster(cluster: CompiledCluster, { rules }: ClusterPolicy): readonly string[] {
  const { name, apiServer, groups, bindings, tokenTtlSeconds, leaseNamespace } = cluster;
  return [
    `Cluster:   ${name} (${apiServer})`,
    `Groups:    ${groups.length === 0 ? EMPTY_CELL : groups.join(", ")}`,
    "Rules:",
    ...formatTable(["EFFECT", "VERBS", "RESOURCES", "NAMESPACES", "NAMES", ""], rules.map(formatRule))
      .map((line) => `  ${line}`),
    "Accounts:",
    ...bindings.map(({ namespace, serviceAccount, groups }) =>
      `  ${namespace}/${serviceAccount}  for ${groups.size === 0 ? "everybody" : [...groups].join(", ")}`
    ),
    `Tokens:    ${tokenTtlSeconds}s, ${
      leaseNamespace === "" ? "can't be taken back before they end" : "taken back by a freeze"
    }`,
  ];
}

/** What is decided about an action. */
export function formatClusterDecision(action: string, decision: ClusterDecision): readonly string[] {
  return ["", `Action:    ${action}`, ...describe(decision)];
}

function describe(decision: ClusterDecision): readonly string[] {
  switch (decision.kind) {
    case "mismatch":
      return ["Decision:  ERROR (the command is not the action)"];
    case "denied":
      return [`Decision:  DENIED (${decision.matchedRule || EMPTY_CELL})`, `Reason:    ${decision.reason}`];
    case "allowed": {
      const { requireApproval, matchedRule, binding, ttlSeconds, reveal } = decision;
      return [
        `Decision:  ALLOWED${requireApproval ? ", requires approval" : ""} (${matchedRule})`,
        `Account:   ${binding.namespace}/${binding.serviceAccount}`,
        `Valid for: ${ttlSeconds}s`,
        ...(reveal ? ["Secrets:   their values are shown"] : []),
      ];
    }
    default:
      return decision satisfies never;
  }
}

function formatRule({ effect, verbs, resources, namespaces, names, reveal }: ClusterRule): readonly string[] {
  const all = (values: readonly string[] | undefined) =>
    values === undefined || values.length === 0 ? "*" : values.join(",");
  return [effect, all(verbs), all(resources), all(namespaces), all(names), reveal === true ? "reveal" : ""];
}
