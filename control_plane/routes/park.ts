import { AppError } from "@gateway/shared/errors";
import { elevationLabel } from "@gateway/shared/policy";
import type { ApprovalParked, K8sDiff, SignRequest } from "@gateway/shared/wire";
import type { AuditEntry } from "@gateway/shared/audit";
import type { ControlPlanePorts } from "./ports.ts";
import { type ApprovalDraft, type ApprovalTarget, sha256Of } from "../approvals/approval.ts";
import { answer } from "./answer.ts";

/** Why a request waits for a human. */
interface ParkReason {
  readonly rule: string;
  readonly anomalies: readonly string[];
  /** Where it would run, as the signer says. */
  readonly target?: ApprovalTarget | undefined;
  /** What it would change on a cluster, as the signer says. */
  readonly k8sDiff?: K8sDiff | undefined;
}

/** Keeps a request until a human has decided, and tells where to ask: status 202. */
export async function park(
  { ports, caller, request }: {
    readonly ports: ControlPlanePorts;
    readonly caller: string;
    readonly request: SignRequest;
  },
  reason: ParkReason,
): Promise<Response> {
  const entry = {
    caller,
    host: request.host,
    host_name: request.host,
    addr: reason.target?.addr ?? "",
    session_id: request.session_id,
    reason: request.reason,
    command: request.command,
    elevation: elevationLabel(request.sudo, request.sudo_user),
    ...describeTarget(request),
    policy_rule: reason.rule,
    anomaly: reason.anomalies.join(","),
  };
  const created = await createFresh(ports, draftOf(ports, { caller, request }, reason)).catch(
    async (cause) => {
      const err = "could not create approval request";
      await ports.record({ ...entry, outcome: "error", err });
      // Another control plane, or a moment later, may have more luck.
      if (cause instanceof AppError && cause.code === "state_stale") throw cause;
      throw new AppError("internal", err, { cause });
    },
  );
  if (created.kind === "too_many") {
    const err = `${created.limit} requests of this ${created.of} wait for approval`;
    await ports.record({ ...entry, outcome: "rate-limited", err });
    throw new AppError("rate_limited", err, { retryAfterSeconds: ports.config.approval.timeout_seconds });
  }
  const { approval, hasJoined, notifyUntil } = created;
  await ports.record({
    ...entry,
    outcome: "approval-required",
    approval_id: approval.id,
    warning: hasJoined ? `decided with ${approval.lead}` : "",
  });
  // Whoever was told of the first decides this one with it.
  if (!hasJoined) ports.notifier.notify(ports.registry.describe(approval), notifyUntil);
  return answer({ approval_id: approval.id, status: "pending" } satisfies ApprovalParked, 202);
}

/** What was asked of the database before, as of the caller's habits, may have waited for it in vain: once is enough. */
async function createFresh({ instances, registry }: ControlPlanePorts, draft: ApprovalDraft) {
  instances.requireFresh();
  return await registry.create(draft);
}

function draftOf(
  { config }: Pick<ControlPlanePorts, "config">,
  { caller, request }: { readonly caller: string; readonly request: SignRequest },
  { rule, anomalies, target, k8sDiff }: ParkReason,
): ApprovalDraft {
  // Taken out here: what is in the request is stored.
  const { bearer_token: bearerToken, ...stored } = request;
  return {
    caller,
    // An approver must not take a stranger's word about a person for the truth.
    endUser: config.trusted_forwarders.includes(caller) ? request.end_user : "",
    host: request.host,
    command: request.command,
    sudo: request.sudo,
    sudoUser: request.sudo_user,
    rule,
    anomalies,
    request: stored,
    bearerToken,
    ...(target !== undefined && { target }),
    ...(k8sDiff !== undefined && { k8sDiff }),
  };
}

/** What records say of a request that is for a cluster. */
export function describeTarget(
  { target_type, k8s_manifest }: Pick<SignRequest, "target_type" | "k8s_manifest">,
): Pick<AuditEntry, "target_type" | "body_sha256"> {
  if (target_type !== "k8s") return {};
  return { target_type, ...(k8s_manifest === "" ? {} : { body_sha256: sha256Of(k8s_manifest) }) };
}
