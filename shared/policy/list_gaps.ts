/**
 * Denials that a list goes around: rules are matched against the action that is asked for, and a list of all
 * namespaces (`list pods -/-`), or of all objects, is an action of its own.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { compileSampleCluster, sampleCluster } from "../testing/sample_cluster.ts";
 * import { findListGaps } from "./list_gaps.ts";
 *
 * const rules = [
 *   { verbs: ["list"], resources: ["pods"], effect: "allow" },
 *   { resources: ["pods"], namespaces: ["vault"], effect: "deny" },
 * ] as const;
 * assert.deepEqual(findListGaps(sampleCluster({ rules }), compileSampleCluster({ rules })), [
 *   { index: 1, list: "list pods -/-" },
 * ]);
 * ```
 *
 * @module
 */
import type { ClusterPolicy, ClusterRule } from "./cluster_model.ts";
import { decideCommand } from "./command.ts";
import type { CompiledCluster } from "./compile_cluster.ts";
import { type ClusterResource, resourceText } from "./kubernetes.ts";

/** A rule that denies, and a list that is not denied and shows what the rule is about. */
export interface ListGap {
  readonly index: number;
  readonly list: string;
}

/** The first such list of each rule. */
export function findListGaps(
  { rules }: Pick<ClusterPolicy, "rules">,
  { commands, resources }: Pick<CompiledCluster, "commands" | "resources">,
): readonly ListGap[] {
  return rules.flatMap((rule, index) => {
    if (rule.effect !== "deny" || !covers(rule.verbs, "list") && !covers(rule.verbs, "get")) return [];
    const denied = [...resources.values()].filter(({ resource }) => covers(rule.resources, resource));
    const list = denied.flatMap((resource) => listsOf(rule, resource))
      .find((text) => decideCommand(commands, text).kind !== "denied");
    return list === undefined ? [] : [{ index, list }];
  });
}

/** The lists in which objects of the rule stand. */
function listsOf(rule: ClusterRule, resource: ClusterResource): readonly string[] {
  const named = rule.namespaces?.includes("*") === false ? rule.namespaces : [];
  const namespaces = resource.namespaced ? named.filter((namespace) => namespace !== "-") : [];
  return ["-", ...namespaces].map((namespace) => `list ${resourceText(resource)} ${namespace}/-`);
}

function covers(values: readonly string[] | undefined, value: string): boolean {
  return values === undefined || values.length === 0 || values.includes("*") || values.includes(value);
}
