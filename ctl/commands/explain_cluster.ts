import { AppError } from "@gateway/shared/errors";
import {
  type ClusterDecision,
  type ClusterIntent,
  type CompiledCluster,
  type CompiledPolicy,
  compilePolicy,
  decideCluster,
  findCluster,
  parseClusterAction,
  toWireClusterDecision,
} from "@gateway/shared/policy";
import { clusterOf } from "../cluster/find_cluster.ts";
import { readAction } from "../explain/cluster_action.ts";
import { formatCluster, formatClusterDecision } from "../explain/format_cluster.ts";
import type { CommandResult } from "../output.ts";
import { loadSignerFile } from "../signer_file.ts";

/** What is asked about a cluster. */
interface ClusterQuestion {
  readonly cluster: string;
  /** Undefined: the cluster alone. */
  readonly action: string | undefined;
  /** Undefined: a caller that may use it. */
  readonly caller: string | undefined;
  readonly endUser: string;
  readonly endUserGroups: readonly string[] | null;
}

/**
 * `policy explain --cluster`: decides as the signer does.
 *
 * @throws {AppError} `invalid_config`, `not_found` or `invalid_request`
 */
export async function explainCluster(
  question: ClusterQuestion,
  { config: path, workingFolder }: { readonly config: string | undefined; readonly workingFolder: string },
): Promise<CommandResult> {
  const config = await loadSignerFile(path, workingFolder);
  const compiled = compilePolicy(config);
  if (compiled.kind === "invalid") {
    throw new AppError("invalid_config", `Cannot use signer config: ${compiled.problems.join("\n  ")}`);
  }
  const source = clusterOf(config, question.cluster);
  const cluster = compiled.policy.clusters.get(question.cluster);
  if (cluster === undefined) throw new TypeError("a cluster of the config is one of the policy");
  const about = {
    cluster: cluster.name,
    api_server: cluster.apiServer,
    groups: cluster.groups,
    rules: source.rules,
    sa_bindings: source.sa_bindings,
  };
  const lines = formatCluster(cluster, source);
  if (question.action === undefined) return { json: about, lines };
  const { action, decision } = decide(compiled.policy, cluster, { ...question, action: question.action });
  return {
    json: {
      ...about,
      action,
      decision: decision.kind === "mismatch" ? decision : {
        ...toWireClusterDecision(decision),
        // The operator may know what an agent is not told.
        matched_rule: decision.matchedRule,
      },
    },
    lines: [...lines, ...formatClusterDecision(action, decision)],
  };
}

function decide(
  policy: CompiledPolicy,
  cluster: CompiledCluster,
  { action, caller, endUser, endUserGroups }: ClusterQuestion & { readonly action: string },
): { readonly action: string; readonly decision: ClusterDecision } {
  const asked = readAction(action);
  const parsed = parseClusterAction(cluster.resources, asked);
  const command = parsed.kind === "ok" ? parsed.action.text : action;
  if (caller !== undefined) {
    const gate = findCluster(policy, caller, cluster.name);
    if (gate.kind === "closed") {
      return { action: command, decision: { kind: "denied", reason: gate.reason, matchedRule: "" } };
    }
  }
  const [allowed = ""] = cluster.allowedCallers;
  const intent: ClusterIntent = {
    ...asked,
    caller: caller ?? allowed,
    endUser,
    endUserGroups,
    command,
    manifestSha256: "",
  };
  return { action: command, decision: decideCluster(cluster, intent) };
}
