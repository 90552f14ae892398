/**
 * The difference of two states of an object, field by field, for people. The bookkeeping of the API server is left out, and
 * values of Secrets are masked.
 */
import { isObject, type JsonObject, stringifyJson } from "@gateway/shared/json";
import { formatKeyPath, shortenText } from "@gateway/shared/text";
import { maskObject } from "@gateway/shared/kubernetes";
import { type K8sDiff, type K8sFieldChange, MAX_K8S_DIFF_BYTES } from "@gateway/shared/wire";

interface Sides {
  readonly before: unknown;
  readonly after: unknown;
}
/** One place: real values are compared, masked ones are shown. */
interface Place {
  readonly path: readonly PropertyKey[];
  readonly real: Sides;
  readonly shown: Sides;
}

/** The API server's own bookkeeping, in `metadata`. */
const UNINTERESTING: ReadonlySet<PropertyKey> = new Set([
  "managedFields",
  "resourceVersion",
  "generation",
  "uid",
  "creationTimestamp",
]);
const MAX_VALUE_LENGTH = 1_000;
/** Deeper than any object of Kubernetes; what is below is compared as one text. */
const MAX_DEPTH = 40;

/** Values that differ show as changed also if they look the same when they are masked. */
export function diffObjects(
  before: unknown,
  after: unknown,
  { isSecret }: { readonly isSecret: boolean },
): K8sDiff {
  const mask = (value: unknown) => maskObject(value, { isSecret });
  const changes = [
    ...findChanges({
      path: [],
      real: { before, after },
      shown: { before: mask(before), after: mask(after) },
    }),
  ];
  return changes.length === 0 ? { kind: "unchanged" } : fit(changes);
}

function* findChanges({ path, real, shown }: Place): Generator<K8sFieldChange> {
  if (isUninteresting(path) || isEqual(real.before, real.after)) return;
  if (path.length < MAX_DEPTH) {
    if (isObject(real.before) && isObject(real.after) && isObject(shown.before) && isObject(shown.after)) {
      const keys = new Set([...Object.keys(real.before), ...Object.keys(real.after)]);
      for (const key of [...keys].sort()) {
        yield* findChanges({
          path: [...path, key],
          real: { before: memberOf(real.before, key), after: memberOf(real.after, key) },
          shown: { before: memberOf(shown.before, key), after: memberOf(shown.after, key) },
        });
      }
      return;
    }
    if (
      Array.isArray(real.before) && Array.isArray(real.after) && Array.isArray(shown.before) &&
      Array.isArray(shown.after)
    ) {
      const order = orderOf(real.before, real.after);
      if (order !== undefined) yield { path: `${formatKeyPath(path)} (order)`, ...order };
      for (const [left, right] of pairs(real.before, real.after)) {
        const index = right ?? left ?? 0;
        yield* findChanges({
          path: [...path, index],
          real: { before: at(real.before, left), after: at(real.after, right) },
          shown: { before: at(shown.before, left), after: at(shown.after, right) },
        });
      }
      return;
    }
  }
  yield {
    path: formatKeyPath(path),
    ...(real.before !== undefined && { before: show(shown.before) }),
    ...(real.after !== undefined && { after: show(shown.after) }),
  };
}

function isUninteresting([first, second, ...others]: readonly PropertyKey[]): boolean {
  if (second === undefined) return first === "status";
  return first === "metadata" && UNINTERESTING.has(second) && others.length === 0;
}

/** The order of the items that are in both lists, if it differs: some lists are run in order. */
function orderOf(
  before: readonly unknown[],
  after: readonly unknown[],
): Pick<K8sFieldChange, "before" | "after"> | undefined {
  const [left, right] = [namesOf(before), namesOf(after)];
  if (left === undefined || right === undefined) return undefined;
  const was = [...left.keys()].filter((name) => right.has(name));
  const is = [...right.keys()].filter((name) => left.has(name));
  return was.every((name, index) => name === is[index]) ? undefined : { before: show(was), after: show(is) };
}

/** Pairs items by name if each item has one, as containers do, else by index. */
function pairs(
  before: readonly unknown[],
  after: readonly unknown[],
): readonly (readonly [left: number | undefined, right: number | undefined])[] {
  const [left, right] = [namesOf(before), namesOf(after)];
  if (left === undefined || right === undefined) {
    const length = Math.max(before.length, after.length);
    return Array.from({ length }, (_, index) => [
      index < before.length ? index : undefined,
      index < after.length ? index : undefined,
    ]);
  }
  return [
    ...[...right].map(([name, index]) => [left.get(name), index] as const),
    ...[...left].filter(([name]) => !right.has(name)).map(([, index]) => [index, undefined] as const),
  ];
}

function namesOf(items: readonly unknown[]): ReadonlyMap<string, number> | undefined {
  const names = new Map<string, number>();
  for (const [index, item] of items.entries()) {
    const name = isObject(item) ? item["name"] : undefined;
    if (typeof name !== "string" || names.has(name)) return undefined;
    names.set(name, index);
  }
  return names;
}

function fit(changes: readonly K8sFieldChange[]): K8sDiff {
  let room = MAX_K8S_DIFF_BYTES - 256;
  const kept: K8sFieldChange[] = [];
  for (const change of changes) {
    room -= new TextEncoder().encode(JSON.stringify(change)).length + 1;
    if (room < 0) break;
    kept.push(change);
  }
  const omitted = changes.length - kept.length;
  return { kind: "changed", changes: kept, ...(omitted > 0 && { omitted }) };
}

function show(value: unknown): string {
  // A value that is masked as a whole still exists.
  return value === undefined ? "[masked]" : shortenText(stringifyJson(value), MAX_VALUE_LENGTH);
}

function isEqual(before: unknown, after: unknown): boolean {
  if (before === after) return true;
  if (before === undefined || after === undefined) return false;
  if (typeof before !== "object" || typeof after !== "object") {
    // Large numbers are read as bigint.
    return typeof before === typeof after && stringifyJson(before) === stringifyJson(after);
  }
  return canonical(before) === canonical(after);
}

function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (!isObject(value)) return stringifyJson(value);
  return `{${
    Object.keys(value).sort().map((key) => `${JSON.stringify(key)}:${canonical(value[key])}`).join(",")
  }}`;
}

function memberOf(object: JsonObject, key: string): unknown {
  return Object.hasOwn(object, key) ? object[key] : undefined;
}

function at(items: readonly unknown[], index: number | undefined): unknown {
  return index === undefined ? undefined : items[index];
}
