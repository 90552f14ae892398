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

/** The API server's verbs for an action, the verb of the action itself first, and the subresource. */
export const REQUESTS: Readonly<
  Record<K8sVerb, { readonly verbs: readonly string[]; readonly subresource?: string }>
> = {
  get: { verbs: ["get"] },
  list: { verbs: ["list"] },
  logs: { verbs: ["get"], subresource: "log" },
  // The response to a patch is the complete object, so get adds no right, and lets approvers see the change. create is
  // for a new object.
  apply: { verbs: ["patch", "create", "get"] },
  delete: { verbs: ["delete"] },
};

/** In a rule: an object without a namespace, a list of all namespaces, or a list in place of a name. */
const NONE = "-";

/** The rights that a cluster's rules need, without duplicates and without those that a rule denies. */
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

/** One kind of action; undefined means every value. */
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

/** Checks if a rule matches every action of this kind. */
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
    resource: subresource === undefined ? resource.resource : `${resource.resource}/${subresource}`,
    verb: each,
    name: name === NONE ? undefined : name,
  }));
}

/** A rule of a Role or ClusterRole. */
export interface RbacRule {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly resourceNames?: readonly string[];
  readonly verbs: readonly string[];
}

/** A rule of an account, and the namespaces that `SelfSubjectRulesReview` lists it in. */
export interface GrantedRule extends RbacRule {
  readonly namespaces: readonly string[];
}

/** Rights as rules, few and in a fixed order, without their namespaces. */
export function toRbacRules(rights: readonly Right[]): readonly RbacRule[] {
  const byVerb = merge(
    rights,
    ({ group, resource, verb }) => [group, resource, verb],
    (right, same) => {
      const names = same.flatMap(({ name }) => name === undefined ? [] : [name]);
      return { ...right, names: names.length < same.length ? undefined : sorted(names) };
    },
  );
  const byResource = merge(
    byVerb,
    ({ group, resource, names }) => [group, resource, names],
    (right, same) => ({ ...right, verbs: sorted(same.map(({ verb }) => verb)) }),
  );
  const rules = merge(
    byResource,
    ({ group, names, verbs }) => [group, names, verbs],
    ({ group, names, verbs }, same): RbacRule => ({
      apiGroups: [group],
      resources: sorted(same.map(({ resource }) => resource)),
      ...(names === undefined ? {} : { resourceNames: names }),
      verbs,
    }),
  );
  return rules.toSorted((left, right) => formatRbacRule(left) < formatRbacRule(right) ? -1 : 1);
}

/** A rule as one line of YAML. */
export function formatRbacRule({ apiGroups, resources, resourceNames, verbs }: RbacRule): string {
  const list = (values: readonly string[]) => `[${values.map((value) => JSON.stringify(value)).join(", ")}]`;
  const names = resourceNames === undefined ? "" : `, resourceNames: ${list(resourceNames)}`;
  return `{apiGroups: ${list(apiGroups)}, resources: ${list(resources)}${names}, verbs: ${list(verbs)}}`;
}

function merge<T, U>(
  items: readonly T[],
  keyOf: (item: T) => unknown,
  combine: (first: T, same: readonly T[]) => U,
): readonly U[] {
  const groups = Map.groupBy(items, (item) => JSON.stringify(keyOf(item)));
  return [...groups.values()].flatMap((same) => same.slice(0, 1).map((first) => combine(first, same)));
}

function sorted(values: readonly string[]): readonly string[] {
  return [...new Set(values)].sort();
}

/** Every account may query its own rights. */
const HARMLESS: ReadonlySet<string> = new Set([
  "create selfsubjectaccessreviews.authorization.k8s.io",
  "create selfsubjectrulesreviews.authorization.k8s.io",
  "create selfsubjectreviews.authentication.k8s.io",
]);

/**
 * Compares the rights of an account with those that it needs.
 *
 * @param granted the rules of each namespace
 * @returns the rules that nothing needs, and the rights that are needed and missing
 */
export function compareRights(granted: ReadonlyMap<string, readonly RbacRule[]>, needed: readonly Right[]) {
  const listed = [...granted].flatMap(([namespace, rules]) => {
    const here = needed.filter((right) => right.namespace === undefined || right.namespace === namespace);
    return rules.flatMap(split).filter((rule) => !isNeeded(rule, here)).map((rule) => ({
      ...rule,
      namespace,
    }));
  });
  const byRule = merge(
    listed,
    ({ namespace: _, ...rule }) => rule,
    ({ namespace: _, ...rule }, same): GrantedRule => ({
      ...rule,
      namespaces: [...new Set(same.map(({ namespace }) => namespace))],
    }),
  );
  const excess = merge(
    byRule,
    ({ verbs: _, ...rest }) => rest,
    (rule, same) => ({ ...rule, verbs: same.flatMap(({ verbs }) => verbs) }),
  );
  const missing = needed.filter((right) => {
    // A right in all namespaces must exist in each namespace that was queried.
    const rules = right.namespace === undefined
      ? [...granted.values()]
      : [granted.get(right.namespace) ?? []];
    return !rules.every((rules) => rules.some((rule) => gives(rule, right)));
  });
  return { excess, missing };
}

/** One rule for each group, resource and verb. */
function split({ apiGroups, resources, verbs, resourceNames }: RbacRule): readonly RbacRule[] {
  const names = resourceNames === undefined || resourceNames.length === 0 ? {} : { resourceNames };
  return apiGroups.flatMap((group) =>
    resources.flatMap((resource) =>
      verbs.map((verb) => ({ apiGroups: [group], resources: [resource], ...names, verbs: [verb] }))
    )
  );
}

/** Checks if a rule for one group, resource and verb grants only needed rights; a wildcard never does. */
function isNeeded(
  { apiGroups: [apiGroup], resources: [resourceName], verbs: [apiVerb], resourceNames }: RbacRule,
  needed: readonly Right[],
): boolean {
  if (HARMLESS.has(`${apiVerb} ${resourceName}.${apiGroup}`)) return true;
  const rights = needed.filter(({ group, resource, verb }) =>
    group === apiGroup && resource === resourceName && verb === apiVerb
  );
  return rights.some(({ name }) => name === undefined) ||
    resourceNames?.every((each) => rights.some(({ name }) => name === each)) === true;
}

function gives({ apiGroups, resources, verbs, resourceNames = [] }: RbacRule, right: Right): boolean {
  const [, subresource] = right.resource.split("/");
  const has = (values: readonly string[], value: string) => values.includes("*") || values.includes(value);
  return has(apiGroups, right.group) && has(verbs, right.verb) &&
    (has(resources, right.resource) ||
      (subresource !== undefined && resources.includes(`*/${subresource}`))) &&
    (resourceNames.length === 0 || (right.name !== undefined && resourceNames.includes(right.name)));
}

/** Every account may read the versions and kinds of the API, its health, and the keys of its tokens. */
const OPEN_PATHS =
  /^\/(?:healthz|livez|readyz|version\/?|apis?(?:\/\*)?|openapi(?:\/\*)?|\.well-known\/openid-configuration\/?|openid\/v1\/jwks\/?)$/;

/** The unneeded paths that are not objects, such as `get /metrics`. */
export function excessPaths(
  rules: readonly { readonly verbs: readonly string[]; readonly nonResourceURLs: readonly string[] }[],
): readonly string[] {
  const found = rules.flatMap(({ verbs, nonResourceURLs }) =>
    nonResourceURLs.flatMap((path) =>
      verbs.filter((verb) => verb !== "get" || !OPEN_PATHS.test(path)).map((verb) => `${verb} ${path}`)
    )
  );
  return [...new Set(found)];
}
