import { createHash } from "node:crypto";
import type { AuditEntry } from "@gateway/shared/audit";
import { AppError, errorText } from "@gateway/shared/errors";
import { type AskedAction, type ClusterAction, parseClusterAction } from "@gateway/shared/policy";
import { quoteText } from "@gateway/shared/text";
import type { WireDecision } from "@gateway/shared/wire";
import { audited, describeDecision, type Events, recordPreview } from "../request/records.ts";
import type { Authority, TokenRequest } from "../authority/authority.ts";
import { approvalRequired, ask } from "../request/obtain.ts";
import { act, type ActPorts } from "./act.ts";
import type { Cluster, Clusters } from "./clusters.ts";
import { checkManifest } from "./manifest.ts";
import { type ActionOptions, pathOf } from "./request.ts";

export interface ActionRequest {
  readonly caller: string;
  /** The caller's groups, where the frontend knows any. `null`: no filter by groups. */
  readonly callerGroups: readonly string[] | null;
  /** The caller's own token: a secret, for the signer and nobody else. */
  readonly bearerToken?: string;
  readonly cluster: string;
  readonly asked: AskedAction;
  readonly options: ActionOptions;
  /** Asks for the decision alone: no token, no connection. */
  readonly dryRun: boolean;
  /** Why, in the caller's words: for whoever has to approve it. */
  readonly reason?: string | undefined;
  /** Told what a long request is waiting for. */
  readonly onProgress?: (text: string) => void;
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
