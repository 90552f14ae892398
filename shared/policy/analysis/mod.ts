/**
 * What a policy admits: questions, cases, and analyses that hold for all commands at once. Pure.
 *
 * @module
 */
export { type CaseResult, decideCases, POLICY_TESTS, type PolicyCase, requirePolicyTests } from "./cases.ts";
export { type AccessChange, diffPolicies, isWider } from "./diff.ts";
export { findUnusedPolicies, type LintFinding, lintPattern, lintPolicy } from "./lint.ts";
export { decideAction, decideRequest, type HostQuestion, readAction, type Requester } from "./question.ts";
export { findHostRemedies } from "./remedies.ts";
export { type ReplayResult, startReplay } from "./replay.ts";
