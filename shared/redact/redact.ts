/**
 * Masks secrets in text that is kept or shown: audit records, notifications. Never used on what is decided
 * upon or run.
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
 * What is not protected: secrets that look like nothing in particular. The built-in rules take time linear
 * in the text; a rule of the operator that must look far ahead for each match, such as `a(.*b)?`, does not.
 *
 * @module
 */
import { BUILT_IN_RULES, type RedactConfig, type RedactRule } from "./rules.ts";
import { RE2JS } from "re2js";
import { AppError, errorText } from "../errors.ts";

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

const MARK_START = "[REDACTED:";

/** Where a rule applies; `secretStart` to `secretEnd` is what is masked. */
interface Match {
  readonly start: number;
  readonly end: number;
  readonly secretStart: number;
  readonly secretEnd: number;
}

/** A rule that is ready for use. */
export class CompiledRule {
  /** What stands in place of a secret. */
  readonly mark: string;
  readonly #pattern: RE2JS;
  readonly #secretGroup: number;

  /** @throws the library's error when the rule is not RE2 */
  constructor({ name, regex }: Pick<RedactRule, "name" | "regex">) {
    this.#pattern = RE2JS.compile(regex);
    this.#secretGroup = this.#pattern.namedGroups()["secret"] ?? 0;
    this.mark = `${MARK_START}${name}]`;
  }

  /** The matches in their order; they do not overlap. */
  *matches(text: string): Generator<Match> {
    const matcher = this.#pattern.matcher(text);
    while (matcher.find()) {
      // A secret group that took no part in the match leaves the whole match to mask.
      const group = matcher.start(this.#secretGroup) < 0 ? 0 : this.#secretGroup;
      yield {
        start: matcher.start(),
        end: matcher.end(),
        secretStart: matcher.start(group),
        secretEnd: matcher.end(group),
      };
    }
  }

  /** The text with a mark in place of each secret; what is masked already stays. */
  apply(text: string): string {
    let masked = "";
    let copied = 0;
    for (const { secretStart, secretEnd } of this.matches(text)) {
      if (secretStart === secretEnd || text.startsWith(MARK_START, secretStart)) continue;
      masked += text.slice(copied, secretStart) + this.mark;
      copied = secretEnd;
    }
    return copied === 0 ? text : masked + text.slice(copied);
  }
}

/** Compiled when a text first has the rule's hint: most rules stay unused, and an idle service is 2 MB smaller. */
export class LazyRule {
  readonly rule: RedactRule;
  #compiled: CompiledRule | undefined;

  constructor(rule: RedactRule) {
    this.rule = rule;
  }

  /** `undefined` when the rule can't match in the text. */
  for(text: string): CompiledRule | undefined {
    const { hint } = this.rule;
    if (hint !== undefined && !hint.test(text)) return undefined;
    this.#compiled ??= new CompiledRule(this.rule);
    return this.#compiled;
  }

  /** The text with a mark in place of each secret. */
  apply(text: string): string {
    return this.for(text)?.apply(text) ?? text;
  }
}

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
