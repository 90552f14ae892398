/**
 * Policy: compilation and decisions for hosts, commands and clusters. Pure.
 *
 * @module
 */

export {
  type AllowedCluster,
  type ClusterDecision,
  type ClusterIntent,
  clusterIntentOf,
  decideCluster,
  type DeniedCluster,
  describeClusterRequest,
  findCluster,
  toWireClusterDecision,
  visibleClusters,
} from "./clusters.ts";
export {
  type CommandVerdict,
  compilePattern,
  composePolicies,
  decideCommand,
  escapePattern,
  hasAllowlist,
  listRules,
  type PolicySet,
} from "./command.ts";
export { type CompiledPolicy, compilePolicy, compilePolicySteps, findPolicyProblems } from "./compile.ts";
export { type CompiledCluster, rulePattern } from "./compile_cluster.ts";
export type { CompiledHost } from "./compile.ts";
export {
  addGrant,
  clampWaiverTtl,
  compileGrant,
  findSameScope,
  type GatedCommand,
  type Grant,
  type GrantSet,
  isActive,
  listActive,
  type LiveGrants,
  NO_GRANTS,
  type ReadyGrant,
  removeGrants,
  toGrantInfo,
  unlearnable,
  waiverScope,
} from "./grants.ts";
export { visibleHosts, visibleRules } from "./host_rules.ts";
export {
  buildResourceTable,
  type ClusterAction,
  type ClusterResource,
  CORE_RESOURCES,
  FIELD_MANAGER,
  isLabel,
  isSubdomain,
  K8S_VERBS,
  type K8sVerb,
  objectPath,
  parseClusterAction,
  type RequestedAction,
  type ResourceTable,
} from "./kubernetes.ts";
export {
  type ApproverConfig,
  type CallerPolicy,
  callerPolicy,
  CLUSTER_EFFECTS,
  type ClusterEffect,
  type ClusterPolicy,
  clusterPolicy,
  type ClusterRule,
  type CommandPolicy,
  commandPolicy,
  type HostPolicy,
  hostPolicy,
  type KubernetesConfig,
  kubernetesConfig,
  MAX_REQUIRED_APPROVALS,
  MAX_TOKEN_TTL_SECONDS,
  MAX_TTL_SECONDS,
  type PasskeyConfig,
  type PolicyConfig,
  type ServiceAccountBinding,
} from "./model.ts";
export {
  canonicalSudoUser,
  elevateCommand,
  elevationLabel,
  elevationPrefix,
  parseCommand,
  parseScript,
} from "./shell.ts";
export { type Decided, type PolicyOutcome, recordDecision } from "./recorded.ts";
export {
  type AllowedSsh,
  BASTION_COMMAND,
  CALLER_DENIALS,
  decideSsh,
  decideSshSteps,
  type DeniedSsh,
  describeSignRequest,
  factsOfRequest,
  intentOf,
  mayComeFrom,
  mayUseHost,
  mayUseSome,
  ownRowOf,
  requiredApprovals,
  type SshDecision,
  type SshIntent,
  toWireDecision,
} from "./ssh.ts";
export { readStopOnDisconnect, STOP_GRACE_SECONDS, stopOnDisconnect } from "./shell.ts";
export {
  describeSharedPrincipals,
  describeUnconnectable,
  describeUnsealedTwins,
  findInertPolicies,
  findListGaps,
  findLoginShellRisk,
  findUnprovedShells,
} from "./warnings.ts";
export {
  accessKind,
  accessParts,
  accessTitle,
  describeAccess,
  describeChange,
  describeDiff,
  describeSpan,
  isCommandShown,
} from "./request_text.ts";
