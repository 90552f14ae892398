/**
 * JSON that crosses a process: types and schemas.
 *
 * @module
 */

export {
  APPROVAL_STATUSES,
  type ApprovalDecision,
  approvalDecision,
  approvalList,
  type ApprovalParked,
  type ApprovalRecord,
  approvalRecord,
  type ApprovalStatus,
  type ApprovalWaiting,
  LONGEST_LEARN_TTL_SECONDS,
  UNDECIDED_AT,
} from "./approval.ts";
export {
  type ClusterInfo,
  type ClustersResponse,
  clustersResponse,
  type ExtraResource,
  wantsClusterRules,
} from "./cluster.ts";
export {
  FREEZE_KINDS,
  type FreezeKind,
  type FreezeRequest,
  freezeRequest,
  freezeResponse,
  type FreezeSubject,
  type RevocationEntry,
  revocationList,
  unfreezeRequest,
  unfreezeResponse,
} from "./freeze.ts";
export {
  grantCreated,
  type GrantInfo,
  grantList,
  type GrantRequest,
  grantRequest,
  grantRevoked,
} from "./grant.ts";
export {
  type HostInfo,
  type HostRules,
  type HostsResponse,
  hostsResponse,
  MAX_RULES_HOSTS,
  readRulesHosts,
  rulesPath,
} from "./host.ts";
export { type K8sDiff, k8sDiff, type K8sFieldChange, MAX_K8S_DIFF_BYTES } from "./k8s_diff.ts";
export {
  HOST_IDENTITY_SUFFIX,
  type HostKrl,
  hostKrl,
  isHostIdentity,
  KRL_NAMESPACE,
  KRL_SIGNATURE_HEADER,
  KRL_VERSION_HEADER,
  type KrlReader,
  type KrlStatus,
  krlStatus,
  LIST_ONLY,
  MAX_REVOKED,
  revokeKeyIdsRequest,
  type RevokeRequestsRequest,
  revokeRequestsRequest,
  type RevokeResponse,
  revokeResponse,
  type RevokeSerialsRequest,
  revokeSerialsRequest,
} from "./krl.ts";
export {
  MAX_POLICY_BODY_BYTES,
  type PolicyChanged,
  policyChanged,
  policyHistory,
  type PolicyRequest,
  policyRequest,
  type PolicyVersionHosts,
  policyVersionHosts,
} from "./policy_version.ts";
export {
  checkCaller,
  checkReason,
  checkSignFields,
  MAX_COMMAND_BYTES,
  MAX_K8S_MANIFEST_BYTES,
  MAX_REASON_CHARACTERS,
  MAX_SIGN_BODY_BYTES,
  type Purpose,
  SESSION_MODES,
  type SessionMode,
  type SignRequest,
  signRequest,
  type SignRequestBody,
  type SignResponse,
  signResponse,
  type SignTarget,
  type WireDecision,
} from "./sign.ts";
export { formatTimestamp } from "./timestamp.ts";
