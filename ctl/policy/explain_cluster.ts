import {
  type ClusterDecision,
  type ClusterPolicy,
  type ClusterRule,
  type CompiledCluster,
  rulePattern,
  toWireClusterDecision,
} from "@gateway/shared/policy";
import { decideAction, findClusterRemedies, type Requester } from "@gateway/shared/policy/analysis";
import { formatKeyPath } from "@gateway/shared/text";
import { clusterOf } from "../clusters/entry.ts";
import type { CommandResult } from "../kit/output.ts";
import type { SignerConfig } from "@gateway/signer/config";
import { compileSigner } from "../kit/signer_file.ts";
import { EMPTY_CELL, formatTable } from "../kit/table.ts";
import { formatChanges } from "./remedies.ts";

/** `policy explain --cluster`: decides as the signer does; without an action, shows the cluster alone. */
export function explainCluster(
  config: SignerConfig,
  name: string,
  { action: asked, ...asker }: Requester & { readonly action: string | undefined },
): CommandResult {
  const policy = compileSigner(config);
  const source = clusterOf(config, name);
  const cluster = policy.clusters.get(name);
  if (cluster === undefined) throw new TypeError("a cluster of the config is one of the policy");
  const about = {
    cluster: cluster.name,
    api_server: cluster.apiServer,
    groups: cluster.groups,
    rules: source.rules,
    sa_bindings: source.sa_bindings,
  };
  const lines = formatCluster(cluster, source);
  if (asked === undefined) return { json: about, lines };
  const { action, decision } = decideAction(policy, cluster, asked, asker);
  const place = formatKeyPath(["kubernetes", "clusters", name, "rules"]);
  const placesOf = (rule: string) =>
    rule === "allowlist:no-match" ? [place] : source.rules.flatMap((each, index) => {
      const kinds = each.effect === "require_approval" ? ["allow", each.effect] : [each.effect];
      const pattern = rulePattern(each, cluster.resources);
      return kinds.some((kind) => `${kind}:${pattern}` === rule) ? [`${place}[${index}]`] : [];
    });
  const rules = decision.kind === "mismatch"
    ? []
    : placesOf(decision.matchedRule).filter((each) => each !== place);
  const changes = decision.kind === "denied"
    ? findClusterRemedies(policy, cluster, asker, { action, placesOf })
    : undefined;
  return {
    json: {
      ...about,
      action,
      matched_rules: rules,
      changes,
      decision: decision.kind === "mismatch" ? decision : {
        ...toWireClusterDecision(decision),
        // Agents do not see deny patterns, but operators may.
        matched_rule: decision.matchedRule,
      },
    },
    lines: [...lines, "", `Action:    ${action}`, ...describe(decision, rules), ...formatChanges(changes)],
  };
}

/** The facts about a cluster that are the same for every action. */
function formatCluster(cluster: CompiledCluster, { rules }: ClusterPolicy): readonly string[] {
  const { name, apiServer, groups, bindings, tokenTtlSeconds, leaseNamespace } = cluster;
  return [
    `Cluster:   ${name} (${apiServer})`,
    `Groups:    ${groups.length === 0 ? EMPTY_CELL : groups.join(", ")}`,
    "Rules:",
    ...formatTable(["EFFECT", "VERBS", "RESOURCES", "NAMESPACES", "NAMES", ""], rules.map(formatRule))
      .map((line) => `  ${line}`),
    "Accounts:",
    ...bindings.map(({ namespace, serviceAccount, groups }) =>
      `  ${namespace}/${serviceAccount}  for ${groups.size === 0 ? "everyone" : [...groups].join(", ")}`
    ),
    `Tokens:    ${tokenTtlSeconds}s, ${
      leaseNamespace === "" ? "valid until they expire" : "revoked by a freeze"
    }`,
  ];
}

function describe(decision: ClusterDecision, rules: readonly string[]): readonly string[] {
  const rule = rules.length === 0 ? [] : [`Rule:      ${rules.join(", ")}`];
  switch (decision.kind) {
    case "mismatch":
      return ["Decision:  ERROR (the command does not match the action)"];
    case "denied":
      return [
        `Decision:  DENIED (${decision.matchedRule || EMPTY_CELL})`,
        ...rule,
        `Reason:    ${decision.reason}`,
      ];
    case "allowed": {
      const { requireApproval, matchedRule, binding, ttlSeconds, reveal } = decision;
      return [
        `Decision:  ALLOWED${requireApproval ? ", requires approval" : ""} (${matchedRule})`,
        ...rule,
        `Account:   ${binding.namespace}/${binding.serviceAccount}`,
        `Valid for: ${ttlSeconds}s`,
        ...(reveal ? ["Secrets:   values are shown"] : []),
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
