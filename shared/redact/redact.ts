/**
 * Masks secrets in text that is kept or shown: audit records, notifications. Never used on what is decided
 * upon or run.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { createRedactor } from "@gateway/shared/redact/redact";
 *
 * const redact = createRedactor({ patterns: [{ name: "ticket", regex: "T-[0-9]+" }] });
 * assert.equal(
 *   redact("mysql -u app -phunter2 # T-12"),
 *   "mysql -u app -p[REDACTED:mysql-p-attached] # [REDACTED:ticket]",
 * );
 * ```
 *
 * What is not protected: secrets that look like nothing in particular. The built-in rules take time linear
 * in the text; a rule of the operator that must look far ahead for each match, such as `a(.*b)?`, does not.
 *
 * @module
 */
import { compileRules } from "./compile_rules.ts";
import type { RedactConfig } from "./model.ts";

/** Masks what the rules find; the text is otherwise unchanged. */
export type Redactor = (text: string) => string;

/**
 * The rules: the built-in ones, unless they are turned off, then the operator's, which are compiled at once.
 *
 * @param config absent: the built-in rules alone
 * @throws {AppError} `invalid_config` that names every pattern that is not RE2
 */
export function createRedactor(config: RedactConfig | undefined): Redactor {
  const { builtIn, own } = compileRules(config);
  const rules = [...builtIn, ...own];
  return (text) => rules.reduce((masked, rule) => rule.apply(masked), text);
}
