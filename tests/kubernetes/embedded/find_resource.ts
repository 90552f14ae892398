import { isObject } from "./field_set.ts";
import { type Resource, resource, RESOURCES } from "./resources.ts";
import type { Store, StoredObject } from "./store.ts";

/** The resource of a path, if the server or a CustomResourceDefinition defines it. */
export function findResource(
  store: Store,
  group: string,
  version: string,
  plural: string,
): Resource | undefined {
  const isIt = (entry: Resource) =>
    entry.group === group && entry.version === version && entry.plural === plural;
  return RESOURCES.find(isIt) ??
    store.list(resource("customresourcedefinitions"), "").flatMap(customResources).find(isIt);
}

function customResources({ spec }: StoredObject): readonly Resource[] {
  if (!isObject(spec) || !isObject(spec.names) || !Array.isArray(spec.versions)) return [];
  const { group, names: { plural, kind }, scope, versions } = spec;
  return versions.map(({ name }) => ({
    group: String(group),
    version: String(name),
    plural: String(plural),
    kind: String(kind),
    namespaced: scope === "Namespaced",
  }));
}
