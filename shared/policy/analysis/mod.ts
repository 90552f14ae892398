/**
 * What a policy admits, decided for all commands at once. Pure.
 *
 * @module
 */
export { type LintFinding, lintPolicy, lintPolicySteps } from "./lint.ts";
