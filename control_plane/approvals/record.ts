import { maskText } from "@gateway/shared/kubernetes";
import { type ApprovalRecord, UNDECIDED_AT } from "@gateway/shared/wire";
import { type Approval, expiresAt, sha256Of, statusOf, type StoredRequest } from "./approval.ts";
import type { Timing } from "./transitions.ts";

const NANOSECONDS = 1_000_000_000n;

/**
 * An approval as approvers see it: without the request and its key.
 *
 * @param others the identical requests that are decided with it
 */
export function toRecord(
  approval: Approval,
  { now, timeoutMs }: Timing,
  others: readonly Approval[] = [],
): ApprovalRecord {
  const { state, request, target } = approval;
  const status = statusOf(approval, now, timeoutMs);
  const access = accessOf(approval.request);
  const learnTtlSeconds = "learnTtlSeconds" in state ? state.learnTtlSeconds : 0;
  const group = [approval, ...others];
  const collected = group.filter((each) => each.state.kind === "consumed").length;
  // As long as one of them is not collected there is something that can expire.
  const ends = status === "expired" ? [] : group.map((each) => expiresAt(each, timeoutMs));
  const end = ends.find((each) => each !== undefined);
  return {
    id: approval.id,
    caller: approval.caller,
    ...(approval.endUser !== "" && { end_user: approval.endUser }),
    host: approval.host,
    command: approval.command,
    ...(approval.sudo && { sudo: true }),
    ...(approval.sudoUser !== "" && { sudo_user: approval.sudoUser }),
    ...(approval.rule !== "" && { rule: approval.rule }),
    status,
    created_at: toTimestamp(approval.createdAt),
    ...(state.kind !== "pending" && { decided_by: state.by }),
    decided_at: state.kind === "pending" ? UNDECIDED_AT : toTimestamp(state.at),
    ...(learnTtlSeconds > 0 && { learn_ttl: BigInt(learnTtlSeconds) * NANOSECONDS }),
    ...(approval.anomalies.length > 0 && { anomalies: approval.anomalies }),
    ...(access.length > 0 && { access }),
    ...(end !== undefined && { expires_at: toTimestamp(end) }),
    ...(target !== undefined && { account: target.user, addr: target.addr }),
    ...(target !== undefined && target.lifeSeconds > 0 && { life_seconds: target.lifeSeconds }),
    ...(request.session_max_seconds > 0 && { session_max_seconds: request.session_max_seconds }),
    ...(request.dry_run && { dry_run: true }),
    ...(request.reason !== "" && { reason: request.reason }),
    ...(request.content_sha256 !== "" && {
      content_sha256: request.content_sha256,
      content_bytes: request.content_bytes,
      ...(request.content_head !== "" && { content_head: request.content_head }),
    }),
    ...describeAction(approval),
    ...("comment" in state && state.comment !== undefined && { comment: state.comment }),
    ...(others.length > 0 && { joined: others.map(({ id }) => id) }),
    ...(collected > 0 && { collected }),
  };
}

/** What is asked of a cluster; the manifest as people may see it. */
function describeAction({ request, k8sDiff }: Approval): Partial<ApprovalRecord> {
  const { target_type, k8s_resource, k8s_group, k8s_manifest: manifest, k8s_force_fields } = request;
  if (target_type !== "k8s") return {};
  const isSecret = k8s_resource === "secrets" && k8s_group === "";
  return {
    target_type: "k8s",
    ...(manifest !== "" && {
      k8s_manifest: maskText(manifest, { isSecret }) ?? withheld(manifest),
      k8s_manifest_sha256: sha256Of(manifest),
    }),
    ...(k8sDiff !== undefined && { k8s_diff: k8sDiff }),
    ...(k8s_force_fields.length > 0 && { k8s_force_fields }),
  };
}

function withheld(manifest: string): string {
  return `[masked: ${new TextEncoder().encode(manifest).length} bytes that can't be read as JSON]`;
}

/** An empty command looks the same for a bastion and for the shell of a session, which may do anything. */
function accessOf({ role, purpose, session_mode, pty, file_transfer }: StoredRequest): readonly string[] {
  return [
    ...(role === "bastion" ? ["bastion"] : []),
    ...(purpose === "session" ? [session_mode === "" ? "session" : `session:${session_mode}`] : []),
    ...(pty ? ["pty"] : []),
    ...(file_transfer ? ["file_transfer"] : []),
  ];
}

function toTimestamp(ms: number): string {
  return new Date(ms).toISOString();
}
