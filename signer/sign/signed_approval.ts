import type { RecordedApproval } from "@gateway/shared/audit";
import { requiredApprovals } from "@gateway/shared/policy";
import { type SignedDecision, subjectOf, verifyProofs } from "@gateway/shared/proofs";
import type { SignedApproval, SignRequest } from "@gateway/shared/wire";
import type { Snapshot } from "../config/snapshot.ts";
import type { Authority } from "./authority.ts";

/** The part of a host or cluster that decides how many people have to sign. */
interface Target {
  readonly groups: readonly string[];
  readonly approvals_required?: number;
}

/** The signed decisions about a request that needs them. */
export interface SignedState {
  /** For the control plane. */
  readonly view: SignedApproval;
  /** The verified decisions of different people. */
  readonly decisions: readonly SignedDecision[];
  /** The reason why the decisions do not approve the request; `undefined` if they do. */
  readonly missing: string | undefined;
}

/** Verifies the proofs of a request; `undefined` if the config requires no signatures for it. */
export function judgeProofs(
  { authority, snapshot, request, caller }: {
    readonly authority: Pick<Authority, "clock" | "live" | "passkeyCounters">;
    readonly snapshot: Snapshot;
    readonly request: SignRequest;
    readonly caller: string;
  },
  target: Target,
): SignedState | undefined {
  const required = requiredApprovals(snapshot.config.approvals, target);
  const { approvers } = snapshot;
  if (required === 0 || approvers === undefined) return undefined;
  const subject = subjectOf(request, caller);
  const scope = { approvers, subject, groups: target.groups, now: authority.clock.now() };
  const verdict = verifyProofs(request.approval_proofs, scope);
  const decisions = verdict.kind === "valid" ? verdict.decisions : [];
  const cloned = decisions.find((decision) => !authority.passkeyCounters.accepts(decision));
  const { caller: callers, end_user: endUsers } = authority.live.view.freezes;
  const frozen = decisions.find(({ approver }) =>
    approvers.byName.get(approver)?.identities.values().some((name) =>
      callers.has(name) || endUsers.has(name)
    )
  );
  const problem = verdict.kind === "invalid"
    ? verdict.problem
    : frozen
    ? `"${frozen.approver}" is frozen`
    : cloned &&
      `the counter of a passkey of "${cloned.approver}" went back: sign again, or remove a cloned passkey`;
  const shortest = Math.min(...decisions.map(({ learnTtlSeconds }) => learnTtlSeconds));
  const missing = problem ??
    (!(decisions.length >= required) ? `${decisions.length} of ${required} people have signed` : undefined) ??
    (request.learn_ttl_seconds > shortest
      ? "the approvers have not signed this lifetime of a waiver"
      : undefined);
  const { installation } = approvers;
  const approved_by = problem === undefined ? decisions.map(({ approver }) => approver) : [];
  return { view: { required, installation, subject, approved_by, problem }, decisions, missing };
}

/** The approvers and their proofs, for the record of an issued credential. */
export function approvalFacts(
  { decisions }: SignedState,
): { readonly approved_by: string; readonly approvals: readonly RecordedApproval[] } {
  return {
    approved_by: approverNames(decisions),
    approvals: decisions.map(({ approver, kind, credential, documentSha256, proof }) => ({
      ...{ approver, kind, credential, document_sha256: documentSha256, proof: { ...proof } },
    })),
  };
}

/** The names of approvers, separated by commas. */
export function approverNames(decisions: readonly SignedDecision[]): string {
  return decisions.map(({ approver }) => approver).join(",");
}
