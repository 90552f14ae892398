/**
 * The rules that a config asks for.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { compileRules } from "./compile_rules.ts";
 *
 * const { own } = compileRules({ patterns: [{ name: "ticket", regex: "T-[0-9]+" }] });
 * assert.equal(own[0]?.apply("T-12"), "[REDACTED:ticket]");
 * ```
 *
 * @module
 */
import { AppError, errorText } from "../errors.ts";
import { LazyRule } from "./compiled_rule.ts";
import type { RedactConfig } from "./model.ts";
import { BUILT_IN_RULES } from "./rules.ts";

/** One compilation for all redactors of a process. */
const BUILT_IN: readonly LazyRule[] = BUILT_IN_RULES.map((rule) => new LazyRule(rule));

/**
 * The built-in rules, unless they are turned off, and then the operator's, in the order in which they are applied.
 *
 * @throws {AppError} `invalid_config` that names every pattern that is not RE2
 */
export function compileRules(
  config: RedactConfig | undefined,
): { readonly builtIn: readonly LazyRule[]; readonly own: readonly LazyRule[] } {
  const { patterns = [], disable_defaults: disabled = false } = config ?? {};
  const problems: string[] = [];
  const own = patterns.map((pattern, index) => {
    const rule = new LazyRule(pattern);
    try {
      rule.for("");
    } catch (error) {
      problems.push(`redact.patterns[${index}].regex: ${errorText(error)}`);
    }
    return rule;
  });
  if (problems.length > 0) throw new AppError("invalid_config", problems.join("\n"));
  return { builtIn: disabled ? [] : BUILT_IN, own };
}
