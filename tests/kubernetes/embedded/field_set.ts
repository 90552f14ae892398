/**
 * The fields of an object for server-side apply (`fieldsV1` of metadata.managedFields): maps and lists with
 * keys consist of several fields, other lists are one field.
 */

/** One step of a path: a field, or an item of a list by its keys. */
export type Step = { readonly field: string } | { readonly keys: Readonly<Record<string, unknown>> };

/** A field path from the root of the object. */
export type Path = readonly Step[];

/** Fields by their path text ({@linkcode pathText}). */
export type FieldSet = ReadonlyMap<string, Path>;

const UNOWNED = new Set([
  ".apiVersion",
  ".kind",
  ".metadata.name",
  ".metadata.namespace",
  ".metadata.uid",
  ".metadata.resourceVersion",
  ".metadata.generation",
  ".metadata.creationTimestamp",
  ".metadata.managedFields",
]);

/** The keys of the lists that are merged by item. */
const LIST_KEYS: Readonly<Record<string, readonly string[]>> = {
  containers: ["name"],
  initContainers: ["name"],
  env: ["name"],
  volumes: ["name"],
  volumeMounts: ["mountPath"],
  imagePullSecrets: ["name"],
  secrets: ["name"],
  conditions: ["type"],
  ownerReferences: ["uid"],
};

/** The fields of an object that a manager can own. */
export function fieldsOf(object: unknown): FieldSet {
  const set = new Map<string, Path>();
  collect(object, [], set);
  return set;
}

export function pathText(path: Path): string {
  return path.map((step) =>
    "field" in step
      ? `.${step.field}`
      : `[${Object.entries(step.keys).map(([key, value]) => `${key}=${JSON.stringify(value)}`).join(",")}]`
  ).join("");
}

export function valueAt(object: unknown, path: Path): unknown {
  let value = object;
  for (const step of path) {
    if ("field" in step) value = isObject(value) ? value[step.field] : undefined;
    else value = Array.isArray(value) ? value.find((item) => hasKeys(item, step.keys)) : undefined;
  }
  return value;
}

export function encodeFields(set: FieldSet): unknown {
  const tree: Record<string, unknown> = {};
  for (const path of set.values()) {
    let node = tree;
    for (const step of path) {
      const key = "field" in step ? `f:${step.field}` : `k:${JSON.stringify(step.keys)}`;
      node = (node[key] ??= {}) as Record<string, unknown>;
    }
  }
  return tree;
}

/** The keys of an item of a list that is merged by item. */
export function itemKeys(list: string, item: unknown): Readonly<Record<string, unknown>> | undefined {
  if (!isObject(item)) return undefined;
  if (list === "ports") {
    const port = "containerPort" in item ? "containerPort" : "port";
    return { [port]: item[port], protocol: item.protocol ?? "TCP" };
  }
  const names = LIST_KEYS[list];
  return names === undefined ? undefined : Object.fromEntries(names.map((name) => [name, item[name]]));
}

/** Whether an item has the keys. The default protocol of a port is TCP. */
export function hasKeys(item: unknown, keys: Readonly<Record<string, unknown>>): boolean {
  return isObject(item) &&
    Object.entries(keys).every(([key, value]) =>
      (item[key] ?? (key === "protocol" ? "TCP" : undefined)) === value
    );
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function collect(value: unknown, path: Path, set: Map<string, Path>): void {
  if (UNOWNED.has(pathText(path)) || value === null || value === undefined) return;
  const last = path.at(-1);
  if (isObject(value) && (path.length === 0 || Object.keys(value).length > 0)) {
    for (const [field, inner] of Object.entries(value)) collect(inner, [...path, { field }], set);
    return;
  }
  if (Array.isArray(value) && last !== undefined && "field" in last && value.length > 0) {
    const keys = value.map((item) => itemKeys(last.field, item));
    if (keys.every((entry) => entry !== undefined)) {
      for (const [index, entry] of keys.entries()) {
        const at = [...path, { keys: entry }];
        set.set(pathText(at), at);
        collect(value[index], at, set);
      }
      return;
    }
  }
  // An empty `metadata` is not a separate field.
  if (path.length > 1 || !isObject(value)) set.set(pathText(path), path);
}
