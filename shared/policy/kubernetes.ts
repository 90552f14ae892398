/**
 * Actions on a cluster: which kinds of objects there are, and the one form in which an action is written, for
 * rules, records and approvals.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { CORE_RESOURCES, parseClusterAction } from "./kubernetes.ts";
 *
 * const asked = { verb: "get", resource: "deployments", group: "", namespace: "prod", name: "api" };
 * const parsed = parseClusterAction(CORE_RESOURCES, asked);
 * assert.equal(parsed.kind === "ok" && parsed.action.text, "get deployments.apps prod/api");
 * ```
 *
 * @module
 */
import { quoteText } from "../text.ts";
import type { ExtraResource } from "../wire/cluster.ts";

/** What can be done with an object. */
export const K8S_VERBS = ["get", "list", "logs", "apply", "delete"] as const;
/** One of {@linkcode K8S_VERBS}. */
export type K8sVerb = (typeof K8S_VERBS)[number];

/** A kind of object. */
export interface ClusterResource {
  /** Lower-case plural name. */
  readonly resource: string;
  /** API group; `""` is the core group. */
  readonly group: string;
  readonly version: string;
  readonly kind: string;
  readonly namespaced: boolean;
}

/** The resources of a cluster by their plural names. */
export type ResourceTable = ReadonlyMap<string, ClusterResource>;

/** An action as it is asked for. Absent parts are `""`. */
export interface AskedAction {
  /** `get`, `list`, `logs`, `apply` or `delete`. */
  readonly verb: string;
  readonly resource: string;
  /** API group; `""`: that of the table. */
  readonly group: string;
  /** Ignored for what has no namespace. */
  readonly namespace: string;
  /** Name of the object; `""` for a list. */
  readonly name: string;
}

/** An action that is well formed. */
export interface ClusterAction {
  readonly verb: K8sVerb;
  readonly resource: ClusterResource;
  /** `""`: none, or all of a list. */
  readonly namespace: string;
  readonly name: string;
  /** `<verb> <resource>[.<group>] <namespace or ->/<name or ->`, which rules are matched against. */
  readonly text: string;
}

/** What became of an {@linkcode AskedAction}. */
type ActionParsing =
  | { readonly kind: "ok"; readonly action: ClusterAction }
  /** What is wrong with it, for people. */
  | { readonly kind: "invalid"; readonly problem: string };

/** The resources that every cluster has. */
export const CORE_RESOURCES: ResourceTable = new Map([
  ...builtIn("", true, [
    ["pods", "Pod"],
    ["services", "Service"],
    ["configmaps", "ConfigMap"],
    ["secrets", "Secret"],
    ["serviceaccounts", "ServiceAccount"],
    ["events", "Event"],
    ["persistentvolumeclaims", "PersistentVolumeClaim"],
  ]),
  ...builtIn("", false, [
    ["namespaces", "Namespace"],
    ["nodes", "Node"],
    ["persistentvolumes", "PersistentVolume"],
  ]),
  ...builtIn("apps", true, [
    ["deployments", "Deployment"],
    ["statefulsets", "StatefulSet"],
    ["daemonsets", "DaemonSet"],
    ["replicasets", "ReplicaSet"],
  ]),
  ...builtIn("batch", true, [["jobs", "Job"], ["cronjobs", "CronJob"]]),
  ...builtIn("networking.k8s.io", true, [["ingresses", "Ingress"]]),
]);

const LABEL = /^[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?$/;
const SUBDOMAIN = /^[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?$/;
const KIND = /^[A-Za-z][A-Za-z0-9]{0,62}$/;

/** Whether a text is a lowercase RFC 1123 label: a resource or a namespace. */
export function isLabel(text: string): boolean {
  return LABEL.test(text);
}

/** Whether a text is a lowercase RFC 1123 subdomain: an API group or the name of an object. */
export function isSubdomain(text: string): boolean {
  // No label of it is empty.
  return SUBDOMAIN.test(text) && !text.includes("..");
}

/** The built-in resources and a cluster's own. What is wrong with its own is told, and those are left out. */
export function buildResourceTable(
  extras: readonly ExtraResource[],
): { readonly table: ResourceTable; readonly problems: readonly { index: number; problem: string }[] } {
  if (extras.length === 0) return { table: CORE_RESOURCES, problems: [] };
  const table = new Map(CORE_RESOURCES);
  const problems: { index: number; problem: string }[] = [];
  for (const [index, extra] of extras.entries()) {
    const problem = findExtraFault(table, extra);
    if (problem !== undefined) {
      problems.push({ index, problem });
      continue;
    }
    const { resource, group = "", version, kind, namespaced = false } = extra;
    table.set(resource, { resource, group, version, kind, namespaced });
  }
  return { table, problems };
}

function findExtraFault(table: ResourceTable, extra: ExtraResource): string | undefined {
  const { resource, group = "", version, kind } = extra;
  if (!isLabel(resource)) return `resource ${quoteText(resource)} is not a lowercase RFC 1123 label`;
  if (group !== "" && !isSubdomain(group)) return `group ${quoteText(group)} is not an API group`;
  if (!isLabel(version)) return `version ${quoteText(version)} is not an API version`;
  if (!KIND.test(kind)) return `kind ${quoteText(kind)} is not a kind`;
  return table.has(resource) ? `resource ${quoteText(resource)} is there already` : undefined;
}

/** Checks an action, fills in its group, and drops the namespace of what has none. */
export function parseClusterAction(table: ResourceTable, asked: AskedAction): ActionParsing {
  const problem = findActionFault(asked);
  if (problem !== undefined) return { kind: "invalid", problem };
  const { verb, resource: plural, group, name } = asked;
  const resource = table.get(plural);
  if (resource === undefined) {
    return {
      kind: "invalid",
      problem: `unknown k8s resource ${
        quoteText(plural)
      }: not in the core table nor this cluster's extra_resources`,
    };
  }
  if (group !== "" && group !== resource.group) {
    return {
      kind: "invalid",
      problem: `k8s resource ${quoteText(plural)} belongs to group ${quoteText(resource.group)}, not ${
        quoteText(group)
      }`,
    };
  }
  if (verb === "logs" && (plural !== "pods" || resource.group !== "")) {
    return { kind: "invalid", problem: `k8s logs are of pods, not of ${quoteText(plural)}` };
  }
  if (!isVerb(verb)) throw new TypeError(`the verb ${verb} has been checked`);
  const namespace = resource.namespaced ? asked.namespace : "";
  const text = `${verb} ${resourceText(resource)} ${namespace || "-"}/${name || "-"}`;
  return { kind: "ok", action: { verb, resource, namespace, name, text } };
}

/** `deployments.apps`, `pods`. */
export function resourceText({ resource, group }: ClusterResource): string {
  return group === "" ? resource : `${resource}.${group}`;
}

/** Who a change is written down as in the object's managed fields; who previews it must say the same. */
export const FIELD_MANAGER = "gateway";

/** Where the API server has the object of an action, or the collection of a list. */
export function objectPath({ resource, namespace, name }: ClusterAction): string {
  const { group, version } = resource;
  const parts = [
    ...(group === "" ? ["api", version] : ["apis", group, version]),
    ...(namespace === "" ? [] : ["namespaces", namespace]),
    resource.resource,
    ...(name === "" ? [] : [name]),
  ];
  return parts.map((part) => `/${encodeURIComponent(part)}`).join("");
}

function findActionFault({ verb, resource, group, namespace, name }: AskedAction): string | undefined {
  if (!isVerb(verb)) return `unknown k8s verb ${quoteText(verb)}`;
  if (!isLabel(resource)) return `invalid k8s resource ${quoteText(resource)} (lowercase RFC 1123 label)`;
  if (group !== "" && !isSubdomain(group)) return `invalid k8s api group ${quoteText(group)}`;
  if (namespace !== "" && !isLabel(namespace)) return `invalid k8s namespace ${quoteText(namespace)}`;
  if (name !== "" && !isSubdomain(name)) return `invalid k8s object name ${quoteText(name)}`;
  if (verb === "list") {
    return name === "" ? undefined : `k8s list takes no object name (got ${quoteText(name)})`;
  }
  if (name === "") return `k8s ${verb} requires an object name`;
  return verb === "logs" && namespace === "" ? "k8s logs requires a namespace" : undefined;
}

function isVerb(text: string): text is K8sVerb {
  return (K8S_VERBS as readonly string[]).includes(text);
}

function builtIn(
  group: string,
  namespaced: boolean,
  kinds: readonly (readonly [resource: string, kind: string])[],
): readonly (readonly [string, ClusterResource])[] {
  return kinds.map(([resource, kind]) => [resource, { resource, group, version: "v1", kind, namespaced }]);
}
