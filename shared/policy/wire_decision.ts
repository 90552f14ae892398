/**
 * A decision as it goes over the wire: what is empty, false or 0 is absent.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { decideSample } from "../testing/sample_policy.ts";
 * import { toWireDecision } from "./wire_decision.ts";
 *
 * assert.deepEqual(toWireDecision(decideSample({}, { pty: true })), {
 *   allowed: false,
 *   reason: 'host "web01" does not allow PTY (allow_pty=false)',
 * });
 * ```
 *
 * @module
 */
import type { WireDecision } from "../wire/sign.ts";
import type { SshDecision } from "./ssh_decision.ts";

/** The wire form of a decision. A denial carries no force-command and no ttl. */
export function toWireDecision(decision: SshDecision): WireDecision {
  const rule = {
    ...(decision.matchedRule !== "" && { matched_rule: decision.matchedRule }),
  };
  const enforcement = {
    ...(decision.enforcement !== "" && { enforcement: decision.enforcement }),
  };
  switch (decision.kind) {
    case "denied":
      return { allowed: false, reason: decision.reason, ...rule, ...enforcement };
    case "allowed":
      return {
        allowed: true,
        ...(decision.requireApproval && { require_approval: true }),
        ...rule,
        ...(decision.forceCommand !== "" && { force_command: decision.forceCommand }),
        ttl_seconds: decision.ttlSeconds,
        ...(decision.elevationPrefix !== "" && { elevation: decision.elevationPrefix }),
        ...enforcement,
        ...(decision.warning !== "" && { warning: decision.warning }),
        ...(decision.wouldDeny && { would_deny: true }),
        ...(decision.wouldRequireApproval && { would_require_approval: true }),
      };
    default:
      return decision satisfies never;
  }
}
