/**
 * Masks secrets in text that is stored or shown: audit records, notifications. Decisions and execution always use the
 * original text.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { createRedactor } from "@gateway/shared/redact";
 *
 * const redact = createRedactor({ patterns: [{ name: "ticket", regex: "T-[0-9]+" }] });
 * assert.equal(
 *   redact("mysql -u app -phunter2 # T-12"),
 *   "mysql -u app -p[REDACTED:mysql-p-attached] # [REDACTED:ticket]",
 * );
 * ```
 *
 * Secrets without a recognizable form stay visible. The built-in rules take time linear in the text. A rule of the
 * operator that must search far ahead for each match, such as `a(.*b)?`, does not.
 *
 * @module
 */
import { finish } from "../clock.ts";
import { compileOwnRules, type RedactConfig } from "./own_rules.ts";
import { maskSecrets } from "./search.ts";

/** Masks what the rules find; the text is otherwise unchanged. */
export type Redactor = (text: string) => string;

/**
 * The built-in rules, unless the config turns them off, then the rules of the operator.
 *
 * @param config absent: the built-in rules alone
 * @throws {AppError} `invalid_config` that names every pattern that is not RE2
 */
export function createRedactor(config: RedactConfig = {}): Redactor {
  const own = compileOwnRules(config);
  return (text) => {
    const masked = config.disable_defaults === true ? text : finish(maskSecrets(text, "commands", markOf));
    return own.reduce((result, rule) => rule.apply(result), masked);
  };
}

/** The mark for a secret of a class. */
export function markOf(name: string): string {
  return `[REDACTED:${name}]`;
}
