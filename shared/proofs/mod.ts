/**
 * Signed approvals: the decision document, its SSH and passkey signatures, and the people who may sign. Pure.
 *
 * Not protected: a compromised control plane can show a false page to the user of a passkey, because the page shows
 * the request. An approver who signs with `broker-ctl approval allow` computes the digest of the shown request, so
 * a false request is rejected by the signer.
 *
 * @module
 */
export { type ApprovalsConfig, approvalsConfig, type Approvers, compileApprovers } from "./approvers.ts";
export {
  type DecisionDocument,
  digestSubject,
  formatDocument,
  MAX_DOCUMENT_SECONDS,
  parseDocument,
  sha256Hex,
  subjectOf,
} from "./document.ts";
export { APPROVAL_NAMESPACE, isSecurityKey, parseApprovalKey } from "./sshsig.ts";
export { type SignedDecision, verifyProofs, verifySignedAt } from "./verify.ts";
