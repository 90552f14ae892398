/**
 * Policy: compilation and decisions for hosts, commands and clusters. Pure.
 *
 * @module
 */

export {
  askedKind,
  askedParts,
  askedTitle,
  describeAsked,
  describeSpan,
  isCommandShown,
} from "./approval_words.ts";
export {
  type AllowedCluster,
  type ClusterDecision,
  type ClusterIntent,
  clusterIntentOf,
  decideCluster,
  type DeniedCluster,
  toWireClusterDecision,
} from "./cluster_decision.ts";
export {
  CLUSTER_EFFECTS,
  type ClusterEffect,
  type ClusterPolicy,
  clusterPolicy,
  type ClusterRule,
  type KubernetesConfig,
  kubernetesConfig,
  MAX_TOKEN_TTL_SECONDS,
  type ServiceAccountBinding,
} from "./cluster_model.ts";
export { findCluster, visibleClusters } from "./clusters.ts";
export { type CommandVerdict, composePolicies, decideCommand, hasAllowlist } from "./command.ts";
export { type CompiledPolicy, compilePolicy, compilePolicySteps, findPolicyProblems } from "./compile.ts";
export { type CompiledCluster, rulePattern } from "./compile_cluster.ts";
export { findInertPolicies } from "./compile_command.ts";
export { type CompiledHost, describeUnconnectable } from "./compile_host.ts";
export { canonicalSudoUser, elevateCommand, elevationLabel, elevationPrefix } from "./elevation.ts";
export {
  addGrant,
  compileGrant,
  type Grant,
  type GrantSet,
  isActive,
  listActive,
  type LiveGrants,
  NO_GRANTS,
  type ReadyGrant,
  removeGrants,
  toGrantInfo,
} from "./grants.ts";
export { visibleRules } from "./host_rules.ts";
export { describeChange, describeDiff } from "./k8s_diff_words.ts";
export {
  type AskedAction,
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
  type ResourceTable,
} from "./kubernetes.ts";
export { findListGaps } from "./list_gaps.ts";
export { findLoginShellRisk, findUnprovedShells } from "./login_shell.ts";
export {
  type CallerPolicy,
  callerPolicy,
  type CommandPolicy,
  commandPolicy,
  type HostPolicy,
  hostPolicy,
  MAX_TTL_SECONDS,
  type PolicyConfig,
} from "./model.ts";
export { compilePattern } from "./pattern.ts";
export { mayComeFrom, mayUseHost, mayUseSome, visibleHosts } from "./rbac.ts";
export { describeSharedPrincipals } from "./shared_principal.ts";
export { parseCommand, parseScript } from "./shell.ts";
export { describeClusterRequest, describeSignRequest, factsOfRequest, intentOf } from "./sign_request.ts";
export { BASTION_COMMAND, decideSsh, decideSshSteps, toWireDecision } from "./ssh.ts";
export type { AllowedSsh, DeniedSsh, SshDecision, SshIntent } from "./ssh_decision.ts";
export { readStopOnDisconnect, STOP_GRACE_SECONDS, stopOnDisconnect } from "./stop_on_disconnect.ts";
export { describeUnsealedTwins } from "./unsealed_twin.ts";
export { clampWaiverTtl, findSameScope, type GatedCommand, unlearnable, waiverScope } from "./waivers.ts";
