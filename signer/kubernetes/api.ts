import type { Clock } from "@gateway/shared/clock";
import { AppError } from "@gateway/shared/errors";
import { isObject, type JsonObject, parseJson, stringifyJson } from "@gateway/shared/json";
import {
  type ApiAnswer,
  type BoundSecret,
  type ClusterApi,
  type IssuedToken,
  maskObject,
  readConflicts,
  readMessage,
  readToken,
  tokenPath,
  tokenRequest,
  type TokenSpec,
} from "@gateway/shared/kubernetes";
import { type ClusterAction, type CompiledCluster, FIELD_MANAGER, objectPath } from "@gateway/shared/policy";
import type { ServiceLogger } from "@gateway/shared/service";
import { formatKeyPath, quoteText, shortenText } from "@gateway/shared/text";
import { type K8sDiff, type K8sFieldChange, MAX_K8S_DIFF_BYTES } from "@gateway/shared/wire";
import type { TokenLeases } from "../live/token_leases.ts";

/**
 * The time for both requests of a preview. A broker stops waiting after its own timeout. Without a preview,
 * the approver decides by the manifest.
 */
const PREVIEW_MS = 4_000;
/** The longest accepted answer. API servers store objects of up to 1.5 MB. */
const MAX_ANSWER_BYTES = 4 << 20;
const UNUSABLE = unknown("the API server did not return a usable answer");

interface Clusters {
  readonly clusters: ClusterApi;
  readonly clock: Clock;
}

/** @throws {AppError} `denied` if the API server rejects the request, `upstream_failure` if it does not answer */
export async function issueToken(
  { clusters, clock, leases, logger }: Clusters & {
    readonly leases: TokenLeases;
    readonly logger: ServiceLogger;
  },
  wish: TokenSpec,
): Promise<IssuedToken> {
  const { account, cluster, ca } = wish;
  const doing = `minting token for ${account.namespace}/${account.serviceAccount} on ${
    quoteText(cluster.name)
  }`;
  const deadline = clock.now() + wish.waitMs;
  const request = (bound?: BoundSecret) =>
    clusters.request({ cluster, ca }, {
      method: "POST",
      path: tokenPath(account),
      body: tokenRequest(cluster.tokenTtlSeconds, bound),
      timeoutMs: Math.max(1, deadline - clock.now()),
      maxBytes: MAX_ANSWER_BYTES,
    });
  const requestBound = async () => {
    const bound = await leases.ensure(wish, doing, { deadline });
    const answer = await request(bound);
    // Status 404 means that the Secret was deleted or that the account does not exist. If the account does
    // not exist, the second answer is 404 again.
    if (answer.kind !== "answered" || (answer.status !== 404 && answer.status !== 409)) return answer;
    return await request(await leases.ensure(wish, doing, { deadline, not: bound }));
  };
  try {
    return readToken(await (cluster.leaseNamespace === "" ? request() : requestBound()), doing);
  } catch (error) {
    // Do not send addresses and paths to the caller.
    if (error instanceof AppError && error.cause !== undefined) {
      logger.warn(error.message, { error: error.cause });
    }
    throw error;
  }
}

/**
 * Requests a dry run of an apply from the API server, with a token of the ServiceAccount that would apply the manifest.
 *
 * @throws {AppError} `conflict` naming the fields that another manager owns
 */
export async function previewApply(
  { clusters, clock }: Clusters,
  { cluster, ca, action, manifest, token, forceFields }: {
    readonly cluster: CompiledCluster;
    readonly ca: string;
    readonly action: ClusterAction;
    readonly manifest: string;
    readonly token: string;
    readonly forceFields: readonly string[];
  },
): Promise<K8sDiff> {
  const deadline = clock.now() + PREVIEW_MS;
  const path = objectPath(action);
  const ask = (asked: Pick<Parameters<ClusterApi["request"]>[1], "method" | "path" | "body">) => {
    const timeoutMs = Math.max(1, deadline - clock.now());
    return clusters.request({ cluster, ca }, { ...asked, token, timeoutMs, maxBytes: MAX_ANSWER_BYTES });
  };
  const current = await ask({ method: "GET", path });
  if (current.kind !== "answered") return UNUSABLE;
  const exists = current.status === 200;
  if (!exists && current.status !== 404) return unknown(`the object cannot be read: ${describe(current)}`);
  const apply = (force: string) =>
    ask({
      method: "PATCH",
      path: `${path}?fieldManager=${FIELD_MANAGER}&dryRun=All${force}`,
      body: { type: "application/apply-patch+yaml", bytes: new TextEncoder().encode(manifest) },
    });
  let applied = await apply("");
  if (applied.kind === "answered" && applied.status === 409) {
    const fields = readConflicts(applied.text);
    if (fields.length === 0 || !fields.every((field) => forceFields.includes(field))) {
      const named = fields.length === 0 ? "" : `; force_fields: ${JSON.stringify(fields.slice(0, 100))}`;
      throw new AppError("conflict", `the apply would fail: ${describe(applied)}${named}`);
    }
    applied = await apply("&force=true");
  }
  if (applied.kind !== "answered") return UNUSABLE;
  if (applied.status !== 200 && applied.status !== 201) {
    return unknown(`the apply would fail: ${describe(applied)}`);
  }
  if (!exists) return { kind: "created" };
  try {
    const isSecret = action.resource.kind === "Secret";
    return diffObjects(readObject(current.text), readObject(applied.text), { isSecret });
  } catch (error) {
    // People see this message, so it must not contain any part of the unreadable object.
    if (error instanceof SyntaxError || error instanceof RangeError || error instanceof AppError) {
      return unknown("the API server's answer is not an object");
    }
    throw error;
  }
}

function readObject(text: string): unknown {
  const value = parseJson(text);
  if (isObject(value)) return value;
  throw new SyntaxError("not an object");
}

function describe({ status, text }: Extract<ApiAnswer, { kind: "answered" }>): string {
  const message = readMessage(text);
  return message === "" ? String(status) : `${status} ${message}`;
}

function unknown(reason: string): K8sDiff {
  return { kind: "unknown", reason };
}

/**
 * Compares two states of an object field by field, for people. The internal fields of the API server are
 * omitted, and values of Secrets are masked.
 */

interface Sides {
  readonly before: unknown;
  readonly after: unknown;
}
/** A field of both states. The real values are compared, and the masked values are shown. */
interface Place {
  readonly path: readonly PropertyKey[];
  readonly real: Sides;
  readonly shown: Sides;
}

/** The fields in `metadata` that the API server itself maintains. */
const UNINTERESTING: ReadonlySet<PropertyKey> = new Set([
  "managedFields",
  "resourceVersion",
  "generation",
  "uid",
  "creationTimestamp",
]);
const MAX_VALUE_LENGTH = 1_000;
/**
 * The maximum depth of the comparison, which is greater than the depth of any Kubernetes object. Deeper
 * values are compared as one text.
 */
const MAX_DEPTH = 40;

/**
 * Lists the changed fields. Values that differ are shown as changed, even if their masked forms are equal.
 */
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

/**
 * The order of the items that both lists contain, if the order differs. The order of some lists has a
 * meaning, for example of steps to run.
 */
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

/** Pairs the items of two lists: by name if every item has one, as containers do, otherwise by index. */
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
  // Show a placeholder, because a value that is masked as a whole still exists.
  return value === undefined ? "[masked]" : shortenText(stringifyJson(value), MAX_VALUE_LENGTH);
}

function isEqual(before: unknown, after: unknown): boolean {
  if (before === after) return true;
  if (before === undefined || after === undefined) return false;
  if (typeof before !== "object" || typeof after !== "object") {
    // Large numbers are parsed as bigint, which has no JSON of its own.
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
