/**
 * The rules of a cluster in words, for agents.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { describeClusterRules } from "./cluster_words.ts";
 *
 * assert.deepEqual(
 *   describeClusterRules([{ verbs: ["get", "list"], resources: ["pods"], namespaces: ["web"], effect: "allow" }]),
 *   ["get, list: pods in namespace web"],
 * );
 * ```
 *
 * @module
 */
import type { ClusterRule } from "./cluster_model.ts";

const MAX_RULES = 50;

/** One line for each rule that allows, also after an approval. Rules that deny are not shown, as for hosts. */
export function describeClusterRules(rules: readonly ClusterRule[]): readonly string[] {
  const allowing = rules.filter(({ effect }) => effect !== "deny");
  const omitted = allowing.length - MAX_RULES;
  return [
    ...allowing.slice(0, MAX_RULES).map(describeRule),
    ...(omitted > 0 ? [`${omitted} more rules are not shown`] : []),
    ...(allowing.length < rules.length ? ["some of this is denied; denied actions are not shown"] : []),
  ];
}

function describeRule({ verbs, resources, namespaces, names, effect, reveal }: ClusterRule): string {
  const anyOf = (values: readonly string[] = []) =>
    values.length === 0 || values.includes("*") ? undefined : values;
  const where = anyOf(namespaces)?.map((name) =>
    name === "-" ? "without a namespace" : `in namespace ${name}`
  );
  const which = anyOf(names)?.map((name) => name === "-" ? "lists" : name);
  return [
    `${anyOf(verbs)?.join(", ") ?? "any verb"}: ${anyOf(resources)?.join(", ") ?? "any resource"} ${
      where?.join(" or ") ?? "in any namespace"
    }`,
    ...(which === undefined ? [] : [`only ${which.join(" or ")}`]),
    ...(reveal === true ? ["values of Secrets are shown"] : []),
    ...(effect === "require_approval" ? ["a human has to approve"] : []),
  ].join("; ");
}
