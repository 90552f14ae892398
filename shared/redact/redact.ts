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
import { RE2JS } from "re2js";
import { AppError, errorText } from "../errors.ts";
import type { RedactConfig } from "./model.ts";
import { BUILT_IN_RULES, type RedactRule } from "./rules.ts";

/** Masks what the rules find; the text is otherwise unchanged. */
export type Redactor = (text: string) => string;

const MARK_START = "[REDACTED:";

/** One compilation for all redactors of a process. */
const BUILT_IN: readonly Redactor[] = BUILT_IN_RULES.map(compileWhenHinted);

/**
 * The rules: the built-in ones, unless they are turned off, then the operator's, which are compiled at once.
 *
 * @param config absent: the built-in rules alone
 * @throws {AppError} `invalid_config` that names every pattern that is not RE2
 */
export function createRedactor(config: RedactConfig | undefined): Redactor {
  const { patterns = [], disable_defaults: disabled = false } = config ?? {};
  const problems: string[] = [];
  const rules = disabled ? [] : [...BUILT_IN];
  for (const [index, pattern] of patterns.entries()) {
    try {
      rules.push(compileRule(pattern));
    } catch (error) {
      problems.push(`redact.patterns[${index}].regex: ${errorText(error)}`);
    }
  }
  if (problems.length > 0) throw new AppError("invalid_config", problems.join("\n"));
  return (text) => rules.reduce((masked, apply) => apply(masked), text);
}

/** Compiled when a text first has the rule's hint: most rules stay unused, and an idle service is 2 MB smaller. */
function compileWhenHinted(rule: RedactRule): Redactor {
  let compiled: Redactor | undefined;
  return (text) => {
    if (rule.hint !== undefined && !rule.hint.test(text)) return text;
    compiled ??= compileRule(rule);
    return compiled(text);
  };
}

function compileRule({ name, regex }: RedactRule): Redactor {
  const pattern = RE2JS.compile(regex);
  const secretGroup: number = pattern.namedGroups()["secret"] ?? 0;
  const mark = `${MARK_START}${name}]`;
  return (text) => {
    const matcher = pattern.matcher(text);
    let masked = "";
    let copied = 0;
    while (matcher.find()) {
      // A secret group that took no part in the match leaves the whole match to mask.
      const group = matcher.start(secretGroup) < 0 ? 0 : secretGroup;
      const start = matcher.start(group);
      const end = matcher.end(group);
      if (start === end || text.startsWith(MARK_START, start)) continue;
      masked += text.slice(copied, start) + mark;
      copied = end;
    }
    return copied === 0 ? text : masked + text.slice(copied);
  };
}
