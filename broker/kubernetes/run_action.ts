import { Buffer } from "node:buffer";
import { createHash } from "node:crypto";
import type { AuditEntry } from "@gateway/shared/audit";
import { AppError, errorText } from "@gateway/shared/errors";
import { parseJson } from "@gateway/shared/json";
import { type ClusterAction, parseClusterAction, type RequestedAction } from "@gateway/shared/policy";
import { cutText, quoteText } from "@gateway/shared/text";
import { MAX_K8S_MANIFEST_BYTES, type WireDecision } from "@gateway/shared/wire";
import type { Authority, Requester, TokenAnswer, TokenRequest } from "../authority/authority.ts";
import { perform } from "../request/execute.ts";
import { approvalRequired, ask, badRequest, describeRequester } from "../request/obtain.ts";
import type { Events } from "../request/records.ts";
import { act, type ActPorts } from "./act.ts";
import { type ActionOptions, type ActionResult, isObject, pathOf } from "./api_call.ts";
import type { Cluster, Clusters } from "./clusters.ts";

export interface ActionRequest extends Requester {
  readonly cluster: string;
  readonly asked: RequestedAction;
  readonly options: ActionOptions;
  readonly dryRun: boolean;
}

type ActionOutcome =
  | ActionResult & { readonly kind: "executed"; readonly serial: bigint }
  | { readonly kind: "decided"; readonly action: string; readonly decision: WireDecision };

export type RunAction = (request: ActionRequest, signal: AbortSignal) => Promise<ActionOutcome>;

interface RunActionPorts extends ActPorts {
  readonly authority: Pick<Authority, "token">;
  readonly clusters: Pick<Clusters, "find">;
  readonly events: Events;
}

/**
 * Finds the cluster, checks the action, gets a token for it (which may mean to wait for a human), acts and records.
 * @throws {AppError} `invalid_request`, `unknown_host`, `denied`, `frozen`, `approval_required`, `upstream_failure`,
 * `audit_unavailable` or `canceled`, with a text that a caller may see
 */
export async function runAction(
  ports: RunActionPorts,
  request: ActionRequest,
  signal: AbortSignal,
): Promise<ActionOutcome> {
  const { cluster: name, onProgress } = request;
  const cluster = await findCluster(ports, request, signal);
  const action = parseAction(cluster, request);
  const entry = describeAction(request, { cluster, action });
  const wanted = createTokenRequest(request, action);
  const result = await perform<Extract<TokenAnswer, { kind: "issued" }>, ActionResult>(ports.events, {
    describe: () => entry,
    // Existing queries for denied actions expect this outcome for every failure before the token is issued.
    refused: "denied",
    gated: (rule) => ({ policy_rule: rule, err: approvalRequired(name, rule).message }),
    obtain: () =>
      ask(`token for ${quoteText(name)}`, (signing) => ports.authority.token(wanted, signing), {
        signal,
        onProgress,
      }),
    async run({ token, decision, waited }) {
      // During a wait for a human the cluster may have been removed or moved.
      const { connection } = waited ? await ports.clusters.find(name, signal) : cluster;
      // An older signer ignores the force fields and does not return `force`.
      const options = decision?.force === true ? request.options : { ...request.options, forceFields: [] };
      const reveal = decision?.reveal === true;
      return await act(ports, { connection: connection(), token, action, options, reveal }, signal);
    },
  }, signal);
  if (result.kind === "needs_approval") throw approvalRequired(name, result.rule);
  return result.kind === "decided" ? { ...result, action: action.text } : result;
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
  // An action that no API server accepts is rejected before a token is requested.
  pathOf(action);
  if (action.verb === "apply" && !dryRun) checkManifest(options.manifest ?? "", action);
  return action;
}

function createTokenRequest(request: ActionRequest, action: ClusterAction): TokenRequest {
  const { resource, group } = action.resource;
  const { manifest = "", forceFields = [] } = request.options;
  return {
    host: request.cluster,
    role: "target",
    purpose: "oneshot",
    command: action.text,
    target_type: "k8s",
    k8s_verb: action.verb,
    k8s_resource: resource,
    ...(group !== "" && { k8s_group: group }),
    ...(action.namespace !== "" && { k8s_namespace: action.namespace }),
    ...(action.name !== "" && { k8s_name: action.name }),
    ...(action.verb === "apply" && { k8s_manifest: manifest }),
    ...(forceFields.length > 0 && { k8s_force_fields: forceFields }),
    ...(request.dryRun && { dry_run: true }),
    ...describeRequester(request),
  };
}

/** The fields of every record. For an unknown cluster, only `ext` holds the action, which is unchecked. */
function describeAction(
  { caller, cluster: name, asked, dryRun, options: { manifest } }: ActionRequest,
  known?: { readonly cluster: Cluster; readonly action: ClusterAction },
): Omit<AuditEntry, "outcome"> {
  const { verb, resource, group, namespace, name: object } = asked;
  const requested = `${verb} ${resource}${group && `.${group}`} ${namespace || "-"}/${object || "-"}`;
  const server = known?.cluster.info.api_server;
  return {
    caller,
    host: server ?? name,
    host_name: name,
    addr: server ?? "",
    command: known === undefined ? "target=k8s" : `target=k8s action=${known.action.text}`,
    command_line: known?.action.text ?? requested,
    target_type: "k8s",
    dry_run: dryRun,
    ...(known?.action.verb === "apply" && manifest !== undefined && {
      body_sha256: createHash("sha256").update(manifest).digest("hex"),
    }),
  };
}

/**
 * Line breaks in YAML but not in JSON. The API server parses a manifest as YAML: kube-apiserver 1.36 reads
 * the first of these characters as a space, and drops the spaces next to the others. The escaped forms are
 * safe.
 */
const YAML_BREAK = /[\u0085\u2028\u2029]/;

const MAX_SHOWN = 100;

/**
 * Checks that a manifest is one JSON document of exactly the requested object. It must have only one
 * interpretation, so that the policy, the approver and the API server see the same object.
 * @throws {AppError} `invalid_request`
 */
export function checkManifest(text: string, { resource, namespace, name }: ClusterAction): void {
  if (text.trim() === "") throw badRequest("k8s apply requires a manifest");
  if (Buffer.byteLength(text) > MAX_K8S_MANIFEST_BYTES) {
    throw badRequest(`the manifest exceeds the limit of ${MAX_K8S_MANIFEST_BYTES} bytes`);
  }
  const manifest = parseManifest(text);
  const apiVersion = resource.group === "" ? resource.version : `${resource.group}/${resource.version}`;
  const metadata = manifest["metadata"];
  if (!isObject(metadata)) throw badRequest("the manifest has no metadata object");
  expect("apiVersion", manifest["apiVersion"], apiVersion);
  expect("kind", manifest["kind"], resource.kind);
  expect("metadata.name", metadata["name"], name);
  // If the namespace is absent, the API server uses the namespace of the request. An object of a kind without
  // namespaces must not appear to be in one.
  if (Object.hasOwn(metadata, "namespace")) expect("metadata.namespace", metadata["namespace"], namespace);
}

function parseManifest(text: string): Readonly<Record<string, unknown>> {
  let manifest: unknown;
  let keys: number;
  try {
    manifest = parseJson(text);
    keys = countKeys(manifest);
  } catch (cause) {
    if (cause instanceof SyntaxError) throw badRequest(`the manifest is not ${describeOther(text)}`, cause);
    if (cause instanceof RangeError) throw badRequest("the manifest is nested too deeply", cause);
    throw cause;
  }
  if (!isObject(manifest)) throw badRequest("the manifest is not a JSON object");
  // The API server reads YAML, in which a duplicate key may be an error or may win.
  if (keys !== countColons(text)) throw badRequest("the manifest has a duplicate key");
  if (YAML_BREAK.test(text)) {
    throw badRequest(
      "the manifest has a line break of YAML: escape it as \\u0085, \\u2028 or \\u2029",
    );
  }
  return manifest;
}

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
  // The API server reads a number beyond 64 bits as another number, such as 0.
  const isBeyond = typeof value === "bigint"
    ? BigInt.asIntN(64, value) !== value
    : typeof value === "number" && Math.abs(value) > 2 ** 63;
  if (isBeyond) throw badRequest("the manifest has a number beyond 64 bits");
  if (Array.isArray(value)) return value.reduce((sum: number, item) => sum + countKeys(item), 0);
  if (!isObject(value)) return 0;
  return Object.values(value).reduce((sum: number, member) => sum + 1 + countKeys(member), 0);
}

function expect(what: string, found: unknown, expected: string): void {
  if (found === expected) return;
  const given = typeof found === "string" ? quoteText(cutText(found, MAX_SHOWN)) : "missing or not a text";
  const wanted = expected === "" ? "none" : quoteText(expected);
  throw badRequest(`the manifest's ${what} does not match the arguments: ${given}, expected ${wanted}`);
}
