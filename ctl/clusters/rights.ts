import {
  buildResourceTable,
  type ClusterPolicy,
  type ClusterResource,
  type ClusterRule,
  K8S_VERBS,
  type K8sVerb,
} from "@gateway/shared/policy";

/** One verb on one kind of object, in the terms of RBAC. */
export interface Right {
  /** Undefined: all namespaces, and objects without a namespace. */
  readonly namespace?: string | undefined;
  readonly group: string;
  readonly resource: string;
  readonly verb: string;
  /** Undefined: all objects. */
  readonly name?: string | undefined;
}

/** The requests to the API server for an action. */
const REQUESTS: Readonly<
  Record<K8sVerb, { readonly verbs: readonly string[]; readonly subresource: string }>
> = {
  get: { verbs: ["get"], subresource: "" },
  list: { verbs: ["list"], subresource: "" },
  logs: { verbs: ["get"], subresource: "/log" },
  // The answer to a patch is the whole object: get adds no right, and lets an approver see the change. create is for a
  // new object.
  apply: { verbs: ["create", "get", "patch"], subresource: "" },
  delete: { verbs: ["delete"], subresource: "" },
};

/** In a rule: an object without a namespace, a list of all namespaces, or a list in place of a name. */
const NONE = "-";

/** The rights that a cluster's rules need, each once, without those that a rule denies. */
export function neededRights({ extra_resources = [], rules }: ClusterPolicy): readonly Right[] {
  const table = [...buildResourceTable(extra_resources).table.values()];
  const denials = rules.filter(({ effect }) => effect === "deny");
  const rights = rules.filter(({ effect }) => effect !== "deny")
    .flatMap((rule) => actionsOf(rule, table))
    .filter((action) => !denials.some((denial) => covers(denial, action)))
    .flatMap(rightsFor);
  const unique = [...new Map(rights.map((right) => [JSON.stringify(right), right])).values()];
  return unique.filter((right) => !unique.some((other) => other !== right && includesRight(other, right)));
}

function includesRight(wide: Right, narrow: Right): boolean {
  return wide.group === narrow.group && wide.resource === narrow.resource && wide.verb === narrow.verb &&
    (wide.namespace === undefined || wide.namespace === narrow.namespace) &&
    (wide.name === undefined || wide.name === narrow.name);
}

/** One kind of action; undefined stands for every value. */
interface Action {
  readonly verb: K8sVerb;
  readonly resource: ClusterResource;
  readonly namespace: string | undefined;
  readonly name: string | undefined;
}

function actionsOf(rule: ClusterRule, table: readonly ClusterResource[]): readonly Action[] {
  const [verbs, resources] = [listed(rule.verbs), listed(rule.resources)];
  const [namespaces, names] = [listed(rule.namespaces) ?? [undefined], listed(rule.names) ?? [undefined]];
  return K8S_VERBS.filter((verb) => verbs?.includes(verb) !== false)
    .flatMap((verb) =>
      table.filter((resource) => resources?.includes(resource.resource) !== false)
        .flatMap((resource) =>
          namespaces.flatMap((namespace) => names.map((name) => ({ verb, resource, namespace, name })))
        )
    )
    .filter(isPossible);
}

/** The values of a part of a rule; undefined: the part matches everything. */
function listed(values: readonly string[] | undefined): readonly string[] | undefined {
  return values === undefined || values.length === 0 || values.includes("*") ? undefined : values;
}

/** A list has no name, and an object outside of namespaces has no namespace. */
function isPossible({ verb, resource, namespace, name }: Action): boolean {
  if (verb === "logs" && (resource.resource !== "pods" || resource.group !== "")) return false;
  if (verb === "list" ? name !== undefined && name !== NONE : name === NONE) return false;
  if (resource.namespaced) return namespace !== NONE || verb === "list";
  return namespace === undefined || namespace === NONE;
}

/** Checks if a rule matches every action of a kind. */
function covers(rule: ClusterRule, { verb, resource, namespace, name }: Action): boolean {
  const matches = (values: readonly string[] | undefined, value: string | undefined) => {
    const all = listed(values);
    return all === undefined || (value !== undefined && all.includes(value));
  };
  return matches(rule.verbs, verb) &&
    matches(rule.resources, resource.resource) &&
    matches(rule.namespaces, resource.namespaced ? namespace : NONE) &&
    matches(rule.names, verb === "list" ? NONE : name);
}

function rightsFor({ verb, resource, namespace, name }: Action): readonly Right[] {
  const { verbs, subresource } = REQUESTS[verb];
  return verbs.map((each) => ({
    namespace: namespace === NONE ? undefined : namespace,
    group: resource.group,
    resource: `${resource.resource}${subresource}`,
    verb: each,
    name: name === NONE ? undefined : name,
  }));
}
