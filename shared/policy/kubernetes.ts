// Actions on a cluster: the kinds of objects, and the canonical form of an action for rules, records and
// approvals.
import { quoteText } from "../text.ts";
import type { ExtraResource } from "../wire/inventory.ts";

/** The verbs of actions. */
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

/** A requested action. Absent parts are `""`. */
export interface RequestedAction {
  readonly verb: string;
  readonly resource: string;
  /** API group; `""`: that of the table. */
  readonly group: string;
  /** Ignored for a resource without namespace. */
  readonly namespace: string;
  /** `""` for a list. */
  readonly name: string;
}

/** A well-formed action. */
export interface ClusterAction {
  readonly verb: K8sVerb;
  readonly resource: ClusterResource;
  /** `""`: none, or all of a list. */
  readonly namespace: string;
  readonly name: string;
  /** `<verb> <resource>[.<group>] <namespace or ->/<name or ->`, which rules match. */
  readonly text: string;
}

/** The resources of every cluster. */
export const CORE_RESOURCES: ResourceTable = new Map([
  ...builtIn("", true, "Pod Service ConfigMap Secret ServiceAccount Event PersistentVolumeClaim"),
  ...builtIn("", false, "Namespace Node PersistentVolume"),
  ...builtIn("apps", true, "Deployment StatefulSet DaemonSet ReplicaSet"),
  ...builtIn("batch", true, "Job CronJob"),
  ...builtIn("networking.k8s.io", true, "Ingress"),
]);

function builtIn(
  group: string,
  namespaced: boolean,
  kinds: string,
): readonly (readonly [string, ClusterResource])[] {
  return kinds.split(" ").map((kind) => {
    const resource = kind.toLowerCase() + (kind.endsWith("s") ? "es" : "s");
    return [resource, { resource, group, version: "v1", kind, namespaced }];
  });
}

const LABEL = /^[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?$/;
const SUBDOMAIN = /^[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?$/;
const KIND = /^[A-Za-z][A-Za-z0-9]{0,62}$/;

/** Whether a text is a lowercase RFC 1123 label: a resource or a namespace. */
export function isLabel(text: string): boolean {
  return LABEL.test(text);
}

/** Whether a text is a lowercase RFC 1123 subdomain: an API group or the name of an object. */
export function isSubdomain(text: string): boolean {
  return SUBDOMAIN.test(text) && !text.includes("..");
}

/** The built-in resources and a cluster's own, without those that have a fault. */
export function buildResourceTable(
  extras: readonly ExtraResource[],
): { readonly table: ResourceTable; readonly problems: readonly { index: number; problem: string }[] } {
  if (extras.length === 0) return { table: CORE_RESOURCES, problems: [] };
  const table = new Map(CORE_RESOURCES);
  const problems = extras.flatMap((extra, index) => {
    const problem = findExtraFault(table, extra);
    if (problem !== undefined) return [{ index, problem }];
    const { resource, group = "", version, kind, namespaced = false } = extra;
    table.set(resource, { resource, group, version, kind, namespaced });
    return [];
  });
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

/** Checks an action, adds its group, and drops the namespace of a resource without namespace. */
export function parseClusterAction(
  table: ResourceTable,
  asked: RequestedAction,
):
  | { readonly kind: "ok"; readonly action: ClusterAction }
  | { readonly kind: "invalid"; readonly problem: string } {
  const invalid = (problem: string) => ({ kind: "invalid", problem }) as const;
  const { resource: plural, group, name } = asked;
  const verb = K8S_VERBS.find((known) => known === asked.verb);
  if (verb === undefined) return invalid(`unknown k8s verb ${quoteText(asked.verb)}`);
  const fault = findActionFault(asked);
  if (fault !== undefined) return invalid(fault);
  const resource = table.get(plural);
  if (resource === undefined) {
    return invalid(
      `unknown k8s resource ${quoteText(plural)}: not in the core table nor this cluster's extra_resources`,
    );
  }
  if (group !== "" && group !== resource.group) {
    return invalid(
      `k8s resource ${quoteText(plural)} belongs to group ${quoteText(resource.group)}, not ${
        quoteText(group)
      }`,
    );
  }
  if (verb === "logs" && (plural !== "pods" || resource.group !== "")) {
    return invalid(`k8s logs are of pods, not of ${quoteText(plural)}`);
  }
  const namespace = resource.namespaced ? asked.namespace : "";
  const text = `${verb} ${resourceText(resource)} ${namespace || "-"}/${name || "-"}`;
  return { kind: "ok", action: { verb, resource, namespace, name, text } };
}

function findActionFault({ verb, resource, group, namespace, name }: RequestedAction): string | undefined {
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

/** `deployments.apps`, `pods`. */
export function resourceText({ resource, group }: ClusterResource): string {
  return group === "" ? resource : `${resource}.${group}`;
}

/** The manager of changes in an object's managed fields. A preview must use the same name. */
export const FIELD_MANAGER = "gateway";

/** The path of an action's object, or of the collection of a list, on an API server. */
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
