/**
 * What a policy admits, decided for all commands at once. Pure.
 *
 * @module
 */
export { type AccessChange, diffPolicies, type Effect, isWider } from "./diff.ts";
export { type LintFinding, lintPolicy, lintPolicySteps } from "./lint.ts";
