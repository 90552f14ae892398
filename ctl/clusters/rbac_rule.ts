import type { Right } from "./rights.ts";

/** A rule of a Role or ClusterRole. */
export interface RbacRule {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly resourceNames?: readonly string[];
  readonly verbs: readonly string[];
}

/** Rights as rules, few and in a fixed order; where they hold is not looked at. */
export function toRbacRules(rights: readonly Right[]): readonly RbacRule[] {
  const byVerbs = merge(
    rights,
    ({ group, resource, verb }) => JSON.stringify([group, resource, verb]),
    (right, same) => ({ ...right, names: namesOf(same) }),
  );
  const byResource = merge(
    byVerbs,
    ({ group, resource, names }) => JSON.stringify([group, resource, names]),
    (right, same) => ({ ...right, verbs: sorted(same.map(({ verb }) => verb)) }),
  );
  const rules = merge(
    byResource,
    ({ group, names, verbs }) => JSON.stringify([group, names, verbs]),
    ({ group, names, verbs }, same): RbacRule => ({
      apiGroups: [group],
      resources: sorted(same.map(({ resource }) => resource)),
      ...(names === undefined ? {} : { resourceNames: names }),
      verbs,
    }),
  );
  return rules.toSorted((left, right) => compare(formatRbacRule(left), formatRbacRule(right)));
}

/** A rule as one line of YAML. */
export function formatRbacRule({ apiGroups, resources, resourceNames, verbs }: RbacRule): string {
  const names = resourceNames === undefined ? "" : `, resourceNames: ${list(resourceNames)}`;
  return `{apiGroups: ${list(apiGroups)}, resources: ${list(resources)}${names}, verbs: ${list(verbs)}}`;
}

/** Undefined where one of the rights is about all objects. */
function namesOf(rights: readonly Right[]): readonly string[] | undefined {
  const names = rights.flatMap(({ name }) => name === undefined ? [] : [name]);
  return names.length < rights.length ? undefined : sorted(names);
}

function merge<T, U>(
  items: readonly T[],
  keyOf: (item: T) => string,
  combine: (first: T, same: readonly T[]) => U,
): readonly U[] {
  const groups = Map.groupBy(items, keyOf);
  return [...groups.values()].flatMap((same) => same[0] === undefined ? [] : [combine(same[0], same)]);
}

function list(values: readonly string[]): string {
  return `[${values.map((value) => JSON.stringify(value)).join(", ")}]`;
}

function sorted(values: readonly string[]): readonly string[] {
  return [...new Set(values)].sort();
}

function compare(left: string, right: string): number {
  return left < right ? -1 : left > right ? 1 : 0;
}
