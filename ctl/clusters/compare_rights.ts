import type { RbacRule } from "./rbac_rule.ts";
import type { Right } from "./rights.ts";

/** What an account may do, as `SelfSubjectRulesReview` lists it. */
export interface GrantedRule extends RbacRule {
  /** In which namespaces it was listed. */
  readonly namespaces: readonly string[];
}

/** What an account may do beside what it needs. */
interface RightsComparison {
  /** Rights that nothing calls for, each with the namespaces where it holds. */
  readonly excess: readonly GrantedRule[];
  /** Rights that are called for and not there. */
  readonly missing: readonly Right[];
}

/** What every account may ask about itself. */
const HARMLESS: readonly (readonly [group: string, resource: string])[] = [
  ["authorization.k8s.io", "selfsubjectaccessreviews"],
  ["authorization.k8s.io", "selfsubjectrulesreviews"],
  ["authentication.k8s.io", "selfsubjectreviews"],
];

/**
 * Compares what an account may do with what it needs.
 *
 * @param granted the rules by the namespace that was asked about
 */
export function compareRights(
  granted: ReadonlyMap<string, readonly RbacRule[]>,
  needed: readonly Right[],
): RightsComparison {
  const excess = new Map<string, GrantedRule>();
  for (const [namespace, rules] of granted) {
    const here = needed.filter((right) => right.namespace === undefined || right.namespace === namespace);
    for (const rule of rules.flatMap(split)) {
      if (isHarmless(rule) || isNeeded(rule, here)) continue;
      const key = JSON.stringify(rule);
      const namespaces = [...excess.get(key)?.namespaces ?? [], namespace];
      excess.set(key, { ...rule, namespaces: [...new Set(namespaces)] });
    }
  }
  return { excess: merged([...excess.values()]), missing: findMissing(granted, needed) };
}

/** One rule for each group, resource and verb, so that each stands for itself. */
function split({ apiGroups, resources, verbs, resourceNames }: RbacRule): readonly RbacRule[] {
  const names = resourceNames === undefined || resourceNames.length === 0 ? {} : { resourceNames };
  return apiGroups.flatMap((group) =>
    resources.flatMap((resource) =>
      verbs.map((verb) => ({ apiGroups: [group], resources: [resource], ...names, verbs: [verb] }))
    )
  );
}

/** Rules that differ in their verbs alone as one. */
function merged(rules: readonly GrantedRule[]): readonly GrantedRule[] {
  const same = Map.groupBy(rules, ({ verbs: _, ...rest }) => JSON.stringify(rest));
  return [...same.values()].flatMap((group) => {
    const [first] = group;
    return first === undefined ? [] : [{ ...first, verbs: group.flatMap(({ verbs }) => verbs) }];
  });
}

function isHarmless({ apiGroups, resources, verbs }: RbacRule): boolean {
  return verbs[0] === "create" &&
    HARMLESS.some(([group, resource]) => apiGroups[0] === group && resources[0] === resource);
}

/** Whether all that a rule for one group, resource and verb gives is called for; a wildcard never is. */
function isNeeded(
  { apiGroups, resources, verbs, resourceNames }: RbacRule,
  needed: readonly Right[],
): boolean {
  const rights = needed.filter(({ group, resource, verb }) =>
    group === apiGroups[0] && resource === resources[0] && verb === verbs[0]
  );
  if (rights.some(({ name }) => name === undefined)) return true;
  return resourceNames !== undefined &&
    resourceNames.every((each) => rights.some(({ name }) => name === each));
}

function findMissing(
  granted: ReadonlyMap<string, readonly RbacRule[]>,
  needed: readonly Right[],
): readonly Right[] {
  return needed.filter((right) => {
    // What is needed everywhere has to be there wherever it was asked for.
    const rules = right.namespace === undefined
      ? [...granted.values()]
      : [granted.get(right.namespace) ?? []];
    return !rules.every((rules) => rules.some((rule) => gives(rule, right)));
  });
}

function gives({ apiGroups, resources, verbs, resourceNames = [] }: RbacRule, right: Right): boolean {
  const [, subresource] = right.resource.split("/");
  const has = (values: readonly string[], value: string) => values.includes("*") || values.includes(value);
  return has(apiGroups, right.group) && has(verbs, right.verb) &&
    (has(resources, right.resource) ||
      (subresource !== undefined && resources.includes(`*/${subresource}`))) &&
    (resourceNames.length === 0 || (right.name !== undefined && resourceNames.includes(right.name)));
}

/** What every account may look at: the versions and kinds of the API, its health, and the keys of its tokens. */
const OPEN_PATHS =
  /^\/(?:healthz|livez|readyz|version\/?|apis?(?:\/\*)?|openapi(?:\/\*)?|\.well-known\/openid-configuration\/?|openid\/v1\/jwks\/?)$/;

/** The paths that are no objects' and that nobody needs: `get /metrics`. */
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
