/**
 * A redaction rule at work on one text.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { CompiledRule } from "./compiled_rule.ts";
 *
 * const rule = new CompiledRule({ name: "pin", regex: "pin (?P<secret>[0-9]+)" });
 * assert.equal(rule.apply("pin 12"), "pin [REDACTED:pin]");
 * ```
 *
 * @module
 */
import { RE2JS } from "re2js";
import type { RedactRule } from "./rules.ts";

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
