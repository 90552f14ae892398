import { type ClusterRule, rulePattern, toWireClusterDecision } from "@gateway/shared/policy";
import { decideAction, readAction, type Requester } from "@gateway/shared/policy/analysis";
import { formatKeyPath } from "@gateway/shared/text";
import { clusterOf } from "../clusters/entry.ts";
import type { CommandResult } from "../kit/output.ts";
import type { SignerConfig } from "@gateway/signer/config";
import { compileSigner } from "../kit/signer_file.ts";
import { EMPTY_CELL, formatTable } from "../kit/table.ts";
import { formatDecision, formatFacts } from "./decision.ts";

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
  const { apiServer, groups, bindings, tokenTtlSeconds, leaseNamespace } = cluster;
  const about = {
    ...{ cluster: name, api_server: apiServer, groups },
    ...{ rules: source.rules, sa_bindings: source.sa_bindings },
  };
  const lines = [
    ...formatFacts({ Cluster: `${name} (${apiServer})`, Groups: groups.join(", ") || EMPTY_CELL }),
    "Rules:",
    ...formatTable(["EFFECT", "VERBS", "RESOURCES", "NAMESPACES", "NAMES", ""], source.rules.map(formatRule))
      .map((line) => `  ${line}`),
    "Accounts:",
    ...bindings.map(({ namespace, serviceAccount, groups }) =>
      `  ${namespace}/${serviceAccount}  for ${[...groups].join(", ") || "everyone"}`
    ),
    ...formatFacts({
      Tokens: `${tokenTtlSeconds}s, ${
        leaseNamespace === "" ? "valid until they expire" : "revoked by a freeze"
      }`,
    }),
  ];
  if (asked === undefined) return { json: about, lines };
  const { action = asked, decision } = decideAction(policy, cluster, readAction(asked), asker);
  const rules = source.rules.flatMap((each, index) => {
    const kinds = each.effect === "require_approval" ? ["allow", each.effect] : [each.effect];
    const pattern = rulePattern(each, cluster.resources);
    return kinds.some((kind) => `${kind}:${pattern}` === decision.matchedRule)
      ? [formatKeyPath(["kubernetes", "clusters", name, "rules", index])]
      : [];
  });
  const allowed = decision.kind === "denied" ? {} : {
    Account: `${decision.binding.namespace}/${decision.binding.serviceAccount}`,
    "Valid for": `${decision.ttlSeconds}s`,
    Secrets: decision.reveal ? "values are shown" : "",
  };
  return {
    json: {
      ...{ ...about, action, matched_rules: rules },
      // Agents do not see deny patterns, but operators may.
      decision: { ...toWireClusterDecision(decision), matched_rule: decision.matchedRule },
    },
    lines: [
      ...[...lines, ""],
      ...formatFacts({ Action: action }),
      ...formatDecision(decision, { rules, allowed }),
    ],
  };
}

function formatRule({ effect, verbs, resources, namespaces, names, reveal }: ClusterRule): readonly string[] {
  const lists = [verbs, resources, namespaces, names];
  return [effect, ...lists.map((values = []) => values.join(",") || "*"), reveal === true ? "reveal" : ""];
}
