import {
  buildResourceTable,
  type ClusterPolicy,
  type ClusterResource,
  type ClusterRule,
  K8S_VERBS,
  type K8sVerb,
} from "@gateway/shared/policy";

/** What a ServiceAccount needs to do in a cluster, in the terms of RBAC. */
export interface Right {
  /** Where; undefined: in all namespaces, and of what has none. */
  readonly namespace: string | undefined;
  readonly group: string;
  readonly resource: string;
  readonly verb: string;
  /** Of which object; undefined: of all. */
  readonly name: string | undefined;
}

/** What an API server is asked for an action. */
const REQUESTS: Readonly<
  Record<K8sVerb, { readonly verbs: readonly string[]; readonly subresource: string }>
> = {
  get: { verbs: ["get"], subresource: "" },
  list: { verbs: ["list"], subresource: "" },
  logs: { verbs: ["get"], subresource: "/log" },
  // Whoever may patch an object is answered with all of it: get adds nothing, and shows an approver what would
  // change. create is for an object that is not there yet.
  apply: { verbs: ["create", "get", "patch"], subresource: "" },
  delete: { verbs: ["delete"], subresource: "" },
};

/** In a rule: an object without a namespace, a list of all namespaces, or a list where a name would be. */
const NONE = "-";

/** The rights without which a cluster's rules could not be used, each once; what a rule denies is left out. */
export function neededRights(cluster: ClusterPolicy): readonly Right[] {
  const { table } = buildResourceTable(cluster.extra_resources ?? []);
  const denials = cluster.rules.filter(({ effect }) => effect === "deny");
  const rights = new Map<string, Right>();
  for (const rule of cluster.rules) {
    if (rule.effect === "deny") continue;
    for (const action of actionsOf(rule, [...table.values()])) {
      if (denials.some((denial) => covers(denial, action))) continue;
      for (const right of rightsFor(action)) rights.set(JSON.stringify(right), right);
    }
  }
  return withoutCovered([...rights.values()]);
}

function includesRight(wide: Right, narrow: Right): boolean {
  return wide.group === narrow.group && wide.resource === narrow.resource && wide.verb === narrow.verb &&
    (wide.namespace === undefined || wide.namespace === narrow.namespace) &&
    (wide.name === undefined || wide.name === narrow.name);
}

/** One kind of action; undefined stands for every one. */
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

/** The values of a part of a rule; undefined: it matches everything. */
function listed(values: readonly string[] | undefined): readonly string[] | undefined {
  return values === undefined || values.length === 0 || values.includes("*") ? undefined : values;
}

/** Whether there are such actions: a list has no name, what is not in a namespace has none. */
function isPossible({ verb, resource, namespace, name }: Action): boolean {
  if (verb === "logs" && (resource.resource !== "pods" || resource.group !== "")) return false;
  if (verb === "list" ? name !== undefined && name !== NONE : name === NONE) return false;
  if (resource.namespaced) return namespace !== NONE || verb === "list";
  return namespace === undefined || namespace === NONE;
}

/** Whether a rule matches every action of a kind. */
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

function withoutCovered(rights: readonly Right[]): readonly Right[] {
  return rights.filter((right) => !rights.some((other) => other !== right && includesRight(other, right)));
}
