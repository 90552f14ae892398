import type { AuditEntry } from "@gateway/shared/audit";
import { AppError, describeFault } from "@gateway/shared/errors";
import { readJsonBody, requireJsonType } from "@gateway/shared/http";
import { parseDocument } from "@gateway/shared/proofs";
import { quoteText } from "@gateway/shared/text";
import {
  type ApprovalDecision,
  approvalDecision,
  type ApprovalRecord,
  checkReason,
} from "@gateway/shared/wire";
import { type Approval, nothingToLearn, proofsOf, type Verdict } from "../approvals/approval.ts";
import type { ControlPlanePorts, Handler } from "./ports.ts";
import { answer, checkSameOrigin, requireApprover } from "./roles.ts";
import { entryOf } from "./sign.ts";

const MAX_DECISION_BYTES = 16 * 1024;

/** `GET /v1/approvals`: lists the approvals, pending approvals first. Callers: `approval.callers`. */
export const handleListApprovals: Handler = async (ports, { peer: { caller } }) => {
  await requireApprover(ports, caller, "GET /v1/approvals");
  return answer(ports.registry.list().map((approval) => ports.registry.describe(approval)));
};

/**
 * `POST /v1/approvals/{id}`: approves or denies a request. Callers: `approval.callers`, except for their own requests.
 *
 * @throws {AppError} `invalid_request` if `learn` has no time or nothing to learn, or `comment` is too long
 * @throws {AppError} `forbidden` if the caller is no approver, or the requester, or another site's page sent the request
 * @throws {AppError} `conflict` if the approval is unknown or not pending, or `shown_ids` names another request
 * @throws {AppError} `unsupported_media_type` if the content type is not `application/json`
 */
export const handleDecide: Handler<"id"> = async (ports, { request, peer: { caller }, param }) => {
  await requireApprover(ports, caller, "POST /v1/approvals/{id}", "not authorised to approve");
  // A browser adds the approver's certificate to every request, also to those of other sites' pages.
  const { approval_url_template } = ports.config.approval;
  if (checkSameOrigin(request.headers, approval_url_template) === "cross_origin") {
    throw new AppError("forbidden", "decisions from other sites are rejected");
  }
  requireJsonType(request);
  const decision = await readJsonBody(request, { maxBytes: MAX_DECISION_BYTES, schema: approvalDecision });
  return answer(await decideApproval(ports, { id: param("id"), approver: caller, decision }));
};

/**
 * Decides an approval, for programs and pages alike. An approval is in the audit log before it takes effect; a denial
 * takes effect even if it cannot be recorded.
 *
 * @throws {AppError} `invalid_request` for learning without a time or with nothing to learn, `forbidden` for one's own
 * request, `conflict` for one that is unknown or not pending, `audit_unavailable` if nothing was decided
 */
export async function decideApproval(
  ports: ControlPlanePorts,
  { id, approver, decision }: {
    readonly id: string;
    readonly approver: string;
    readonly decision: ApprovalDecision;
  },
): Promise<ApprovalRecord> {
  const { approve, comment, ttl_seconds, shown_ids } = decision;
  const learn = approve && decision.learn;
  if (learn && ttl_seconds <= 0) throw new AppError("invalid_request", "learn requires ttl_seconds > 0");
  checkReason(comment, "comment");
  const recorded: AuditEntry[] = [];
  const takeBack = async (why: string) => {
    const err = `not decided, despite the earlier record: ${why}`;
    await Promise.all(recorded.map((entry) => ports.record({ ...entry, outcome: "error", err })));
  };
  const signed = approve ? await checkProof(ports, id, decision) : undefined;
  // If people sign, only their documents can request a waiver.
  const learnTtlSeconds = signed?.learnTtlSeconds ?? (learn ? ttl_seconds : 0);
  const allowed = signed?.isEnough === false
    ? "approval-signed"
    : learnTtlSeconds > 0
    ? "approval-decision-allow-learn"
    : "approval-decision-allow";
  const decided = await ports.registry.decide(
    id,
    {
      ...{ approver, approve, shown: shown_ids, signed, learnTtlSeconds },
      // Convert the comment to text that every store and log can hold.
      comment: comment.toWellFormed().replaceAll("\0", "\ufffd"),
    },
    async (approval) => {
      const problem = learnTtlSeconds > 0 ? nothingToLearn(approval) : undefined;
      if (problem !== undefined) {
        throw new AppError(
          "invalid_request",
          `nothing to learn: ${problem}; approve it without learn`,
        );
      }
      const entry = {
        ...approvalEntryOf(approval, approver),
        outcome: approve ? allowed : "approval-denied",
        ...(comment !== "" && { warning: `comment=${quoteText(comment)}` }),
      };
      await (approve ? ports.require(entry) : ports.record(entry));
      recorded.push(entry);
    },
  ).catch(async (error) => {
    await takeBack(describeFault(error));
    throw error;
  });
  switch (decided.kind) {
    case "decided":
      if (decided.approval.state.kind === "pending") return ports.registry.describe(decided.approval);
      observeWait(ports, decided.approval, approve ? "allowed" : "denied");
      for (const each of decided.remaining) ports.notifier.notify(ports.registry.describe(each));
      return ports.registry.describe(decided.approval);
    case "self": {
      const err = "self-approval not allowed: requesters cannot decide their own requests";
      const outcome = "self-approval-rejected";
      await ports.record({ ...approvalEntryOf(decided.approval, approver), outcome, err });
      throw new AppError("forbidden", err);
    }
    case "not_pending":
      await takeBack(`it is ${decided.status}`);
      throw new AppError("conflict", `approval ${shown(id)} is not pending: it is ${decided.status}`);
    case "not_identical": {
      const err = `request ${shown(decided.id)} in shown_ids is not identical to ${shown(id)}`;
      throw new AppError("conflict", err);
    }
    case "outdated":
      await takeBack("another approver has signed meanwhile");
      throw new AppError(
        "conflict",
        `another approver has signed ${shown(id)} meanwhile: send the decision again`,
      );
    case "unknown":
      throw new AppError("conflict", unknownApproval(id));
    default:
      return decided satisfies never;
  }
}

/**
 * Asks the signer whether the signed decisions about a request are valid and enough; `undefined` if none are needed.
 * The signer decides again when the broker collects the approval.
 *
 * @throws {AppError} `invalid_request` without a valid proof, `conflict` for a second decision of one person
 */
async function checkProof(
  { registry, signer }: ControlPlanePorts,
  id: string,
  { proof }: ApprovalDecision,
): Promise<(NonNullable<Verdict["signed"]> & Pick<Verdict, "learnTtlSeconds">) | undefined> {
  const [approval, request] = [registry.find(id), registry.requestOf(id)];
  if (approval?.signed === undefined || request === undefined) return undefined;
  if (proof === undefined) {
    throw new AppError(
      "invalid_request",
      "this approval must be signed: use broker-ctl approval allow, or a passkey on the page of the request",
    );
  }
  const proofs = [...proofsOf(approval), proof];
  const { decision, signed_approval } = await signer.sign({
    ...request,
    dry_run: true,
    approval_proofs: proofs,
  });
  if (decision?.allowed !== true) {
    throw new AppError("conflict", "the signer now denies this request: deny it, or correct the policy");
  }
  if (signed_approval?.problem !== undefined) {
    throw new AppError("invalid_request", `the signer rejects the decision: ${signed_approval.problem}`);
  }
  // The policy has changed: no signatures are needed any more, or no approval.
  if (signed_approval === undefined) return { proofs, isEnough: true, learnTtlSeconds: 0 };
  const { approved_by, required } = signed_approval;
  if (approved_by.length < proofs.length) throw new AppError("conflict", "this person has signed already");
  // The signer accepts the shortest lifetime that somebody has signed.
  const signedTtls = proofs.map(({ document }) => parseDocument(document)?.learn_ttl_seconds ?? 0);
  return { proofs, isEnough: approved_by.length >= required, learnTtlSeconds: Math.min(...signedTtls) };
}

export function observeWait(
  { timings, clock }: ControlPlanePorts,
  { createdAt }: Approval,
  end: string,
): void {
  timings.approval.observe(Math.max(0, clock.now() - createdAt) / 1000, end);
}

/** The fields that all records of an approval have. */
export function approvalEntryOf(approval: Approval, approvedBy: string): Omit<AuditEntry, "outcome"> {
  const { id, caller, request, target, rule, anomalies } = approval;
  return {
    ...entryOf(caller, request),
    addr: target?.addr ?? "",
    policy_rule: rule,
    anomaly: anomalies.join(","),
    approval_id: id,
    approved_by: approvedBy,
  };
}

/** An ID from a URL, which can have any length and characters. */
/** One message for every status that reports an unknown approval. */
export const unknownApproval = (id: string): string => `cannot find approval ${shown(id)}: unknown or purged`;

function shown(id: string): string {
  return JSON.stringify(id.slice(0, 64));
}
