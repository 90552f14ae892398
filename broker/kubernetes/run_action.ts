import { createHash } from "node:crypto";
import type { AuditEntry } from "@gateway/shared/audit";
import { AppError, errorText } from "@gateway/shared/errors";
import { type AskedAction, type ClusterAction, parseClusterAction } from "@gateway/shared/policy";
import { cutText, quoteText } from "@gateway/shared/text";
import { MAX_K8S_MANIFEST_BYTES, type WireDecision } from "@gateway/shared/wire";
import { audited, describeDecision, type Events, recordPreview } from "../request/records.ts";
import type { Authority, TokenRequest } from "../authority/authority.ts";
import { approvalRequired, ask } from "../request/obtain.ts";
import { act, type ActPorts } from "./act.ts";
import type { Cluster, Clusters } from "./clusters.ts";
import { type ActionOptions, pathOf } from "./ask.ts";
import { parseJson } from "@gateway/shared/json";

export interface ActionRequest {
  readonly caller: string;
  /** The caller's groups, where the frontend knows any. `null`: no filter by groups. */
  readonly callerGroups: readonly string[] | null;
  /** The caller's own token: a secret, for the signer and nobody else. */
  readonly bearerToken?: string | undefined;
  readonly cluster: string;
  readonly asked: AskedAction;
  readonly options: ActionOptions;
  /** Asks for the decision alone: no token, no connection. */
  readonly dryRun: boolean;
  /** Why, in the caller's words: for whoever has to approve it. */
  readonly reason?: string | undefined;
  /** Told what a long request is waiting for. */
  readonly onProgress?: ((text: string) => void) | undefined;
}

export type ActionOutcome =
  | {
    readonly kind: "done";
    /** A JSON document, or the text of a log. */
    readonly output: string;
    readonly serial: bigint;
    readonly warnings: readonly string[];
  }
  | { readonly kind: "decided"; readonly action: string; readonly decision: WireDecision };

/** Acts on a cluster, or previews the decision about it. */
export type RunAction = (request: ActionRequest, signal: AbortSignal) => Promise<ActionOutcome>;

/** What it takes to act on clusters. */
interface RunActionPorts extends ActPorts {
  readonly authority: Pick<Authority, "token">;
  readonly clusters: Pick<Clusters, "find">;
  readonly events: Events;
}

/**
 * The one way of an action: know the cluster as it is now, check what is asked, get a token made for it (which may mean
 * to wait for a human), do it, record it, return it.
 *
 * @throws {AppError} `invalid_request`, `unknown_host`, `denied`, `frozen`, `approval_required`, `upstream_failure`,
 * `audit_unavailable` or `canceled`, with a text that a caller may see
 */
export async function runAction(
  ports: RunActionPorts,
  request: ActionRequest,
  signal: AbortSignal,
): Promise<ActionOutcome> {
  const { authority, events } = ports;
  const cluster = await findCluster(ports, request, signal);
  const action = parseAction(cluster, request);
  const entry = describeAction(request, { cluster, action });
  // Whatever fails on the way to a token is a refusal, as queries for such records expect.
  const refused = { entry: { ...entry, outcome: "denied" }, signal };
  const answer = await audited(
    events,
    refused,
    () =>
      ask(
        `token for ${quoteText(request.cluster)}`,
        (signing) => authority.token(createTokenRequest(request, action), signing),
        { signal, onProgress: request.onProgress },
      ),
  );
  switch (answer.kind) {
    case "decided": {
      const { decision } = answer;
      await recordPreview(events, entry, decision);
      return { kind: "decided", action: action.text, decision };
    }
    case "needs_approval": {
      const error = approvalRequired(request.cluster, answer.rule);
      await events.bestEffort({ ...entry, outcome: "denied", policy_rule: answer.rule, err: error.message });
      throw error;
    }
    case "issued":
      break;
    default:
      return answer satisfies never;
  }
  const { token, serial, decision, waited } = answer;
  const issued = { ...entry, serial };
  const { output, warnings } = await audited(events, { entry: issued, signal }, async () => {
    // While a human took his time the cluster may have gone, or be somewhere else.
    const now = waited ? await ports.clusters.find(request.cluster, signal) : cluster;
    const reveal = decision?.reveal === true;
    // A signer of an earlier version decides without the fields, and says nothing of force.
    const options = decision?.force === true ? request.options : { ...request.options, forceFields: [] };
    return await act(ports, { connection: now.connection(), token, action, options, reveal }, signal);
  });
  await events.require({ ...issued, ...describeDecision(decision), outcome: "executed" });
  return {
    kind: "done",
    output,
    serial,
    warnings: [...(decision?.warning ? [decision.warning] : []), ...warnings],
  };
}

async function findCluster(
  { clusters, events }: RunActionPorts,
  request: ActionRequest,
  signal: AbortSignal,
): Promise<Cluster> {
  try {
    return await clusters.find(request.cluster, signal);
  } catch (error) {
    const isUnknown = error instanceof AppError && error.code === "unknown_host";
    await events.bestEffort({
      ...describeAction(request),
      outcome: isUnknown ? "denied" : "error",
      err: isUnknown ? "unknown cluster" : errorText(error),
    });
    throw error;
  }
}

/** @throws {AppError} `invalid_request` */
function parseAction({ table }: Cluster, { asked, options, dryRun }: ActionRequest): ClusterAction {
  const parsed = parseClusterAction(table, asked);
  if (parsed.kind === "invalid") throw new AppError("invalid_request", parsed.problem);
  const { action } = parsed;
  // Nothing is asked for that no API server takes.
  pathOf(action);
  if (action.verb === "apply" && !dryRun) checkManifest(options.manifest ?? "", action);
  return action;
}

function createTokenRequest(request: ActionRequest, action: ClusterAction): TokenRequest {
  const { resource, group } = action.resource;
  return {
    host: request.cluster,
    role: "target",
    purpose: "oneshot",
    command: action.text,
    target_type: "k8s",
    k8s_verb: action.verb,
    k8s_resource: resource,
    ...(group === "" ? {} : { k8s_group: group }),
    ...(action.namespace === "" ? {} : { k8s_namespace: action.namespace }),
    ...(action.name === "" ? {} : { k8s_name: action.name }),
    ...(action.verb === "apply" ? { k8s_manifest: request.options.manifest ?? "" } : {}),
    ...(request.options.forceFields?.length ? { k8s_force_fields: request.options.forceFields } : {}),
    ...(request.dryRun ? { dry_run: true } : {}),
    end_user: request.caller,
    end_user_groups: request.callerGroups,
    ...(request.bearerToken === undefined ? {} : { bearer_token: request.bearerToken }),
    ...(request.reason ? { reason: request.reason } : {}),
  };
}

/** What every record of an action says. Of an unknown cluster, `command` does not hold the action; `ext` does. */
function describeAction(
  { caller, cluster: name, asked, dryRun, options }: ActionRequest,
  known?: { readonly cluster: Cluster; readonly action: ClusterAction },
): Omit<AuditEntry, "outcome"> {
  const { manifest } = options;
  return {
    caller,
    host: known?.cluster.info.api_server ?? name,
    host_name: name,
    addr: known?.cluster.info.api_server ?? "",
    command: known === undefined ? "target=k8s" : `target=k8s action=${known.action.text}`,
    command_line: known?.action.text ?? describeAsked(asked),
    target_type: "k8s",
    dry_run: dryRun,
    ...(known?.action.verb === "apply" && manifest !== undefined
      ? { body_sha256: createHash("sha256").update(manifest).digest("hex") }
      : {}),
  };
}

/** An action as it was requested: nobody has checked it, and the group may be missing. */
function describeAsked({ verb, resource, group, namespace, name }: AskedAction): string {
  return `${verb} ${resource}${group && `.${group}`} ${namespace || "-"}/${name || "-"}`;
}

type JsonObject = Readonly<Record<string, unknown>>;

/**
 * Line breaks of YAML, as which the API server reads a manifest, and not of JSON: kube-apiserver 1.36 makes a blank of
 * the first, and drops the blanks beside the others. As escapes they are left alone.
 */
const YAML_BREAK = /[\u0085\u2028\u2029]/;

/** As much of a wrong value as an error repeats, in characters. */
const MAX_SHOWN = 100;

/**
 * Checks that a manifest is one JSON document of the very object that an apply is asked for, and can be read in one way
 * only: what the policy decides about, what a human sees and what the API server does must be the same.
 *
 * @throws {AppError} `invalid_request` that says what is wrong
 */
export function checkManifest(text: string, { resource, namespace, name }: ClusterAction): void {
  if (text.trim() === "") throw invalid("k8s apply requires a manifest");
  if (new TextEncoder().encode(text).length > MAX_K8S_MANIFEST_BYTES) {
    throw invalid(`the manifest exceeds the limit of ${MAX_K8S_MANIFEST_BYTES} bytes`);
  }
  const manifest = parseManifest(text);
  const apiVersion = resource.group === "" ? resource.version : `${resource.group}/${resource.version}`;
  const metadata = manifest["metadata"];
  if (!isObject(metadata)) throw invalid("the manifest has no metadata object");
  expect("apiVersion", manifest["apiVersion"], apiVersion);
  expect("kind", manifest["kind"], resource.kind);
  expect("metadata.name", metadata["name"], name);
  // Left out, it is that of the request; but what has none must not seem to be in one.
  if (Object.hasOwn(metadata, "namespace")) expect("metadata.namespace", metadata["namespace"], namespace);
}

function parseManifest(text: string): JsonObject {
  let manifest: unknown;
  try {
    manifest = parseJson(text);
  } catch (cause) {
    if (!(cause instanceof SyntaxError)) throw cause;
    throw invalid(`the manifest is not ${describeOther(text)}`, cause);
  }
  if (!isObject(manifest)) throw invalid("the manifest is not a JSON object");
  // The API server reads it as YAML, where a second key of a name may be an error or may be the one that counts.
  if (keysOf(manifest) !== countColons(text)) throw invalid("the manifest has an object with a key twice");
  if (YAML_BREAK.test(text)) {
    throw invalid(
      "the manifest has a line break that YAML reads otherwise: write it as \\u0085, \\u2028 or \\u2029",
    );
  }
  return manifest;
}

function keysOf(manifest: JsonObject): number {
  try {
    return countKeys(manifest);
  } catch (cause) {
    if (cause instanceof RangeError) throw invalid("the manifest is nested too deeply", cause);
    throw cause;
  }
}

/** What it is not, with what it may be instead. */
function describeOther(text: string): string {
  const start = text.trimStart();
  if (!start.startsWith("{") && !start.startsWith("[")) return "JSON (send JSON, not YAML)";
  if (/\}\s*(?:---\s*)?\{/.test(text)) return "one JSON document (apply objects one by one)";
  return "valid JSON";
}

/** Outside strings a JSON text has one colon for each key. */
function countColons(text: string): number {
  return (text.match(/"(?:[^"\\]|\\[^]?)*"?|:/g) ?? []).filter((token) => token === ":").length;
}

function countKeys(value: unknown): number {
  if (isBeyond64Bits(value)) throw invalid("the manifest has a number beyond 64 bits");
  if (Array.isArray(value)) return value.reduce((sum: number, item) => sum + countKeys(item), 0);
  if (!isObject(value)) return 0;
  return Object.values(value).reduce((sum: number, member) => sum + 1 + countKeys(member), 0);
}

/** What the API server takes for another number, such as 0. */
function isBeyond64Bits(value: unknown): boolean {
  if (typeof value === "bigint") return BigInt.asIntN(64, value) !== value;
  return typeof value === "number" && Math.abs(value) > 2 ** 63;
}

function expect(what: string, found: unknown, expected: string): void {
  if (found === expected) return;
  const told = typeof found === "string" ? quoteText(cutText(found, MAX_SHOWN)) : "missing or not a text";
  const wanted = expected === "" ? "none" : quoteText(expected);
  throw invalid(`the manifest's ${what} does not match the arguments: ${told}, expected ${wanted}`);
}

function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function invalid(message: string, cause?: unknown): AppError {
  return new AppError("invalid_request", `bad request: ${message}`, { cause });
}
