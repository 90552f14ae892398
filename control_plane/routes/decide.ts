import type { AuditEntry } from "@gateway/shared/audit";
import { AppError, describeFault } from "@gateway/shared/errors";
import { elevationLabel } from "@gateway/shared/policy";
import { quoteText } from "@gateway/shared/text";
import {
  type ApprovalDecision,
  approvalDecision,
  type ApprovalRecord,
  checkReason,
} from "@gateway/shared/wire";
import type { ControlPlanePorts } from "./ports.ts";
import { describeTarget } from "./sign.ts";
import { type Approval, nothingToLearn } from "../approvals/approval.ts";
import { type Peer, readJsonBody, requireJsonType } from "@gateway/shared/http";
import { answer, checkSameOrigin, originOf, requireApprover } from "./roles.ts";

/** An approver's decision on one approval. */
interface DecideRequest {
  readonly id: string;
  readonly approver: string;
  readonly decision: ApprovalDecision;
}

/**
 * Decides an approval, the same for programs and for the pages. An approval is in the audit log before it counts;
 * a denial counts also where it can't be recorded.
 *
 * @returns the approval as it is now
 * @throws {AppError} `invalid_request` for learning without a time or where there is nothing to learn, `forbidden` for
 * one's own request, `conflict` for one that is unknown or not pending, `audit_unavailable` when nothing was decided
 */
export async function decideApproval(
  ports: ControlPlanePorts,
  { id, approver, decision }: DecideRequest,
): Promise<ApprovalRecord> {
  const learn = decision.approve && decision.learn;
  if (learn && decision.ttl_seconds <= 0) {
    throw new AppError("invalid_request", "learn requires ttl_seconds > 0");
  }
  checkReason(decision.comment, "comment");
  const recorded: AuditEntry[] = [];
  const takeBack = async (why: string) => {
    const err = `not decided, in spite of the record: ${why}`;
    await Promise.all(recorded.map((entry) => ports.record({ ...entry, outcome: "error", err })));
  };
  const decided = await ports.registry.decide(
    id,
    {
      approver,
      approve: decision.approve,
      learnTtlSeconds: learn ? decision.ttl_seconds : 0,
      shown: decision.shown_ids,
      // As text that every store and log can hold.
      comment: decision.comment.toWellFormed().replaceAll("\0", "\ufffd"),
    },
    async (approval) => {
      if (learn) refuseToLearnNothing(approval);
      const entry = {
        ...entryOf(approval, approver),
        outcome: outcomeOf(decision),
        ...(decision.comment !== "" && { warning: `comment=${quoteText(decision.comment)}` }),
      };
      await (decision.approve ? ports.require(entry) : ports.record(entry));
      recorded.push(entry);
    },
  ).catch(async (error) => {
    await takeBack(describeFault(error));
    throw error;
  });
  switch (decided.kind) {
    case "decided":
      ports.timings.approval.observe(
        waitedSeconds(decided.approval, ports.clock.now()),
        decision.approve ? "allowed" : "denied",
      );
      for (const each of decided.remaining) ports.notifier.notify(ports.registry.describe(each));
      return ports.registry.describe(decided.approval);
    case "self": {
      const err = "self-approval not allowed: whoever asks does not decide";
      await ports.record({ ...entryOf(decided.approval, approver), outcome: "self-approval-rejected", err });
      throw new AppError("forbidden", err);
    }
    case "not_pending":
      await takeBack(`it is ${decided.status}`);
      throw new AppError("conflict", `approval ${shown(id)} is not pending: it is ${decided.status}`);
    case "not_identical": {
      const err = `${shown(decided.id)} of shown_ids is not a request that can be decided with ${shown(id)}`;
      throw new AppError("conflict", err);
    }
    case "unknown":
      throw new AppError("conflict", `approval ${shown(id)} is unknown`);
    default:
      return decided satisfies never;
  }
}

/** How long an approval has waited for its decision, in seconds. */
export function waitedSeconds({ createdAt }: Approval, now: number): number {
  return Math.max(0, now - createdAt) / 1000;
}

function outcomeOf({ approve, learn }: ApprovalDecision): string {
  if (!approve) return "approval-denied";
  return learn ? "approval-decision-allow-learn" : "approval-decision-allow";
}

/** Who is told that something was learned must be able to count on it. */
function refuseToLearnNothing(approval: Approval): void {
  const problem = nothingToLearn(approval);
  if (problem === undefined) return;
  throw new AppError("invalid_request", `nothing to learn: ${problem}; approve it without learn`);
}

/** What the records of an approval have in common. */
export function entryOf(approval: Approval, approvedBy: string): Omit<AuditEntry, "outcome"> {
  return {
    caller: approval.caller,
    host: approval.host,
    host_name: approval.host,
    addr: approval.target?.addr ?? "",
    session_id: approval.request.session_id,
    command: approval.command,
    elevation: elevationLabel(approval.sudo, approval.sudoUser),
    ...describeTarget(approval.request),
    policy_rule: approval.rule,
    anomaly: approval.anomalies.join(","),
    approval_id: approval.id,
    approved_by: approvedBy,
  };
}

/** An id from a URL, which can be anything of any length. */
function shown(id: string): string {
  return JSON.stringify(id.slice(0, 64));
}

const MAX_DECISION_BYTES = 16 * 1024;

/** `GET /v1/approvals`: all that are not forgotten yet, those that wait first. */
export async function handleListApprovals(ports: ControlPlanePorts, peer: Peer): Promise<Response> {
  await requireApprover(ports, peer, { route: "GET /v1/approvals" });
  return answer(ports.registry.list().map((approval) => ports.registry.describe(approval)));
}

/** `POST /v1/approvals/{id}`: a human's decision. */
export async function handleDecide(
  ports: ControlPlanePorts,
  request: Request,
  peer: Peer,
  id: string,
): Promise<Response> {
  await requireApprover(ports, peer, { route: "POST /v1/approvals/{id}", err: "not authorised to approve" });
  // A browser adds the approver's certificate to whatever a page makes it send.
  if (
    checkSameOrigin(request.headers, originOf(ports.config.approval.approval_url_template)) === "cross_origin"
  ) {
    throw new AppError("forbidden", "decisions from other sites are refused");
  }
  requireJsonType(request);
  const decision = await readJsonBody(request, { maxBytes: MAX_DECISION_BYTES, schema: approvalDecision });
  return answer(await decideApproval(ports, { id, approver: peer.caller, decision }));
}
