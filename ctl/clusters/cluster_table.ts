import type { ClusterPolicy, ClusterRule } from "@gateway/shared/policy";
import type { ClusterInfo, ExtraResource } from "@gateway/shared/wire";
import { EMPTY_CELL, formatTable, joinNames } from "../kit/table.ts";

const HEADING = ["NAME", "API SERVER", "GROUPS", "EXTRA RESOURCES"];
const CONFIG_HEADING = [...HEADING, "CALLERS", "SERVICE ACCOUNTS", "RULES"];
/** The signer returns the clusters of one caller, and an operator is no caller. */
const NONE_FOR_CALLER = [
  "(no clusters that your certificate's CN may use)",
  "To list all clusters: broker-ctl cluster list --config <the signer's config>",
];

/** The clusters of a signer's answer as a table for so many columns, sorted by name. */
export function formatClusterInfos(
  clusters: Readonly<Record<string, ClusterInfo>>,
  columns: number | undefined,
): readonly string[] {
  const rows = byName(clusters).map(([name, cluster]) => formatInfo(name, cluster));
  return rows.length === 0 ? NONE_FOR_CALLER : formatTable(HEADING, rows, columns);
}

/** The clusters of a config, with what brokers are not told. */
export function formatClusters(
  clusters: Readonly<Record<string, ClusterPolicy>>,
  columns: number | undefined,
): readonly string[] {
  const rows = byName(clusters).map(([name, cluster]) => [
    ...formatInfo(name, cluster),
    join(cluster.allowed_callers),
    join(cluster.sa_bindings.map(({ namespace, service_account: account }) => `${namespace}/${account}`)),
    labelRules(cluster.rules),
  ]);
  return rows.length === 0 ? ["(no clusters configured)"] : formatTable(CONFIG_HEADING, rows, columns);
}

/** Rules in a word: `allow:3 approval:1 deny:1`. */
export function labelRules(rules: readonly ClusterRule[]): string {
  const count = (effect: ClusterRule["effect"]) => rules.filter((rule) => rule.effect === effect).length;
  const counts = [["allow", count("allow")], ["approval", count("require_approval")], [
    "deny",
    count("deny"),
  ]] as const;
  return counts.flatMap(([name, count]) => count === 0 ? [] : [`${name}:${count}`]).join(" ") || EMPTY_CELL;
}

function formatInfo(
  name: string,
  { api_server: server, groups, extra_resources: extras }: Pick<
    ClusterInfo,
    "api_server" | "groups" | "extra_resources"
  >,
): readonly string[] {
  return [name, server, join(groups), join(extras?.map(nameResource))];
}

function nameResource({ resource, group = "" }: ExtraResource): string {
  return group === "" ? resource : `${resource}.${group}`;
}

function join(names: readonly string[] | undefined): string {
  return names === undefined || names.length === 0 ? EMPTY_CELL : joinNames(names);
}

function byName<T>(clusters: Readonly<Record<string, T>>): readonly (readonly [string, T])[] {
  return Object.entries(clusters).toSorted(([left], [right]) => left < right ? -1 : 1);
}
