/**
 * Helpers for tests only.
 *
 * @module
 */

export { anyCharacter, wholeCharacter } from "./any_character.ts";
export {
  approverKey,
  type AssertionChanges,
  createPasskey,
  decisionText,
  passkeyProof,
  sshProof,
} from "./approval_proofs.ts";
export { type EscapedKey, escapeKey } from "./escaped_key.ts";
export { FakeClock } from "./fake_clock.ts";
export { FixedRandom } from "./fixed_random.ts";
export { assertLinearWork } from "./linear_work.ts";
export { type ReadElement, readHtml } from "./html_reader.ts";
export { MemoryAuditLog } from "./memory_audit_log.ts";
export { refusedMethods } from "./refused_methods.ts";
export { compileSampleCluster, sampleAction, sampleCluster } from "./sample_cluster.ts";
export { SAMPLE_NOW, sampleGrant } from "./sample_grant.ts";
export { compileSample, SAMPLE_HOST_KEY, sampleConfig, sampleHost, sampleIntent } from "./sample_policy.ts";
export { createIssuerKey, createTokenIssuer, type IssuerKey, type TokenIssuer } from "./token_issuer.ts";
