import { isDeepStrictEqual } from "node:util";
import {
  encodeFields,
  type FieldSet,
  fieldsOf,
  hasKeys,
  isObject,
  itemKeys,
  type Path,
  pathText,
  valueAt,
} from "./field_set.ts";
import { ApiFailure } from "./status.ts";

/** The managers of the fields of an object, and their operations. */
export interface Manager {
  readonly name: string;
  readonly operation: "Apply" | "Update";
  readonly apiVersion: string;
  readonly subresource?: string;
  readonly time: string;
  readonly fields: FieldSet;
}

export interface Application {
  readonly live: Readonly<Record<string, unknown>>;
  readonly managers: readonly Manager[];
  readonly manifest: Readonly<Record<string, unknown>>;
  readonly manager: Omit<Manager, "operation" | "fields">;
  readonly force: boolean;
}

/** The object after an apply, and the owners of its fields. */
export interface Applied {
  readonly object: Readonly<Record<string, unknown>>;
  readonly managers: readonly Manager[];
}

/**
 * Server-side apply: sets the manifest's fields and removes fields that the manager set before but no longer
 * names. Changing a field of another manager is a conflict.
 *
 * @throws {ApiFailure} 409 with each conflict
 */
export function apply({ live, managers, manifest, manager, force }: Application): Applied {
  const fields = fieldsOf(manifest);
  const isOwn = (entry: Manager) => entry.name === manager.name && entry.operation === "Apply";
  const before = managers.find(isOwn);
  const changed = (path: Path) => !isDeepStrictEqual(valueAt(manifest, path), valueAt(live, path));
  const conflicts = managers.filter((entry) => !isOwn(entry)).map((entry) => ({
    entry,
    paths: [...entry.fields.values()].filter((path) =>
      fields.has(pathText(path)) && !("keys" in (path.at(-1) ?? {})) && changed(path)
    ),
  })).filter(({ paths }) => paths.length > 0);
  if (conflicts.length > 0 && !force) throw conflictFailure(conflicts);

  const others = managers.filter((entry) => !isOwn(entry)).map((entry) => {
    const lost = conflicts.find((conflict) => conflict.entry === entry)?.paths ?? [];
    if (lost.length === 0) return entry;
    const texts = new Set(lost.map(pathText));
    return { ...entry, fields: new Map([...entry.fields].filter(([text]) => !texts.has(text))) };
  }).filter((entry) => entry.fields.size > 0);

  let object = merge(live, manifest, "") as Record<string, unknown>;
  for (const [text, path] of [...before?.fields ?? []].toReversed()) {
    const isKept = fields.has(text) || others.some((entry) => entry.fields.has(text));
    if (!isKept) object = without(object, path) as Record<string, unknown>;
  }
  const isSame = before !== undefined &&
    isDeepStrictEqual([...before.fields.keys()].toSorted(), [...fields.keys()].toSorted());
  const own = isSame && isDeepStrictEqual(object, live)
    ? before
    : { ...manager, operation: "Apply" as const, fields };
  return { object, managers: fields.size === 0 ? others : insert(managers, others, own) };
}

export function encodeManagers(managers: readonly Manager[]): unknown {
  return managers.map(({ name, operation, apiVersion, subresource, time, fields }) => ({
    manager: name,
    operation,
    apiVersion,
    time,
    fieldsType: "FieldsV1",
    fieldsV1: encodeFields(fields),
    ...(subresource === undefined ? {} : { subresource }),
  }));
}

/**
 * The owners of an object after a change that was not an apply. The manager that changed a field is its only
 * owner.
 */
export function managersAfterUpdate(
  { before, after, managers, manager }: {
    readonly before: unknown;
    readonly after: unknown;
    readonly managers: readonly Manager[];
    readonly manager: Omit<Manager, "operation" | "fields">;
  },
): readonly Manager[] {
  const now = fieldsOf(after);
  const changed = new Map(
    [...now].filter(([, path]) => !isDeepStrictEqual(valueAt(before, path), valueAt(after, path))),
  );
  const isOwn = (entry: Manager) =>
    entry.operation === "Update" && entry.name === manager.name && entry.subresource === manager.subresource;
  const own = new Map([...managers.find(isOwn)?.fields ?? [], ...changed].filter(([text]) => now.has(text)));
  const others = managers.filter((entry) => !isOwn(entry)).map((entry) => ({
    ...entry,
    fields: new Map([...entry.fields].filter(([text]) => now.has(text) && !changed.has(text))),
  })).filter((entry) => entry.fields.size > 0);
  return own.size === 0 ? others : [...others, { ...manager, operation: "Update", fields: own }];
}

/** Merges a manifest into an object. Lists with keys are merged by item. */
function merge(live: unknown, manifest: unknown, list: string): unknown {
  if (isObject(live) && isObject(manifest)) {
    const merged: Record<string, unknown> = { ...live };
    for (const [key, value] of Object.entries(manifest)) merged[key] = merge(live[key], value, key);
    return merged;
  }
  if (Array.isArray(live) && Array.isArray(manifest)) {
    const keys = manifest.map((item) => itemKeys(list, item));
    if (keys.length > 0 && keys.every((entry) => entry !== undefined)) {
      const merged = manifest.map((item, index) =>
        merge(live.find((other) => hasKeys(other, keys[index] ?? {})), item, "")
      );
      return [...merged, ...live.filter((item) => !keys.some((entry) => hasKeys(item, entry ?? {})))];
    }
  }
  return manifest;
}

function without(value: unknown, [step, ...rest]: Path): unknown {
  if (step === undefined) return undefined;
  if ("field" in step) {
    if (!isObject(value) || !(step.field in value)) return value;
    const inner = without(value[step.field], rest);
    const { [step.field]: _, ...others } = value;
    const isGone = inner === undefined || (isObject(inner) && Object.keys(inner).length === 0) ||
      (Array.isArray(inner) && inner.length === 0);
    return isGone ? others : { ...value, [step.field]: inner };
  }
  if (!Array.isArray(value)) return value;
  return value.flatMap((item) => {
    if (!hasKeys(item, step.keys)) return [item];
    const inner = without(item, rest);
    return inner === undefined ? [] : [inner];
  });
}

/** Inserts a manager at its earlier position, or else at the end. */
function insert(before: readonly Manager[], others: readonly Manager[], own: Manager): readonly Manager[] {
  const index = before.findIndex((entry) => entry.name === own.name && entry.operation === own.operation);
  if (index === -1) return [...others, own];
  return [...others.slice(0, index), own, ...others.slice(index)];
}

function conflictFailure(
  conflicts: readonly { readonly entry: Manager; readonly paths: readonly Path[] }[],
): ApiFailure {
  const causes = conflicts.flatMap(({ entry, paths }) =>
    paths.map((path) => ({
      reason: "FieldManagerConflict",
      message: `conflict with ${whose(entry)}`,
      field: pathText(path),
    }))
  );
  const [first] = causes;
  const texts = conflicts.map(({ entry, paths }) =>
    [`conflicts with ${whose(entry)}:`, ...paths.map((path) => `- ${pathText(path)}`)].join("\n")
  );
  const message = causes.length === 1 && first !== undefined
    ? `Apply failed with 1 conflict: ${first.message}: ${first.field}`
    : `Apply failed with ${causes.length} conflicts: ${texts.join("\n")}`;
  return new ApiFailure(409, "Conflict", message, { causes });
}

function whose({ name, operation, apiVersion, subresource }: Manager): string {
  if (operation === "Apply") return `"${name}"`;
  return `"${name}"${
    subresource === undefined ? "" : ` with subresource "${subresource}"`
  } using ${apiVersion}`;
}
