import type { Clock } from "@gateway/shared/clock";
import { AppError } from "@gateway/shared/errors";
import { isObject, parseJson, stringifyJson } from "@gateway/shared/json";
import {
  type ApiAnswer,
  type BoundSecret,
  type ClusterApi,
  type IssuedToken,
  readConflicts,
  readMessage,
  readToken,
  tokenPath,
  tokenRequest,
  type TokenWish,
} from "@gateway/shared/kubernetes";
import { type ClusterAction, type CompiledCluster, FIELD_MANAGER, objectPath } from "@gateway/shared/policy";
import type { ServiceLogger } from "@gateway/shared/service";
import { quoteText } from "@gateway/shared/text";
import type { K8sDiff } from "@gateway/shared/wire";
import type { TokenLeases } from "../live/token_leases.ts";
import { diffObjects } from "./object_diff.ts";

/** For both requests. Without a preview an approver decides by the manifest; a broker that waits too long gives up. */
const PREVIEW_MS = 4_000;
/** The largest object that an API server keeps has 1.5 MB. */
const MAX_ANSWER_BYTES = 4 << 20;
const UNUSABLE = unknown("the API server gave no answer that can be used");

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
  wish: TokenWish,
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
      body: {
        type: "application/json",
        bytes: new TextEncoder().encode(stringifyJson(tokenRequest(cluster.tokenTtlSeconds, bound))),
      },
      timeoutMs: Math.max(1, deadline - clock.now()),
      maxBytes: MAX_ANSWER_BYTES,
    });
  const requestBound = async () => {
    const bound = await leases.ensure(wish, doing, { deadline });
    const answer = await request(bound);
    // The Secret was deleted; or there is no such account, which the second answer says again.
    if (answer.kind !== "answered" || (answer.status !== 404 && answer.status !== 409)) return answer;
    return await request(await leases.ensure(wish, doing, { deadline, not: bound }));
  };
  try {
    return readToken(await (cluster.leaseNamespace === "" ? request() : requestBound()), doing);
  } catch (error) {
    // The caller is told no address and no path.
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
  if (!exists && current.status !== 404) return unknown(`the object can't be read: ${describe(current)}`);
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
    // A message about an object is shown to people: nothing of what could not be read is in it.
    if (error instanceof SyntaxError || error instanceof RangeError || error instanceof AppError) {
      return unknown("the API server's answer is no object");
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
