/**
 * A redaction rule of unknown shape at work on a text that comes in pieces.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { LazyRule } from "./compiled_rule.ts";
 * import { WindowStream } from "./window_stream.ts";
 *
 * const stream = new WindowStream(new LazyRule({ name: "pin", regex: "pin\\s(?P<secret>[0-9]+)" }));
 * assert.equal(stream.push("pin\n") + stream.push("12") + stream.end(), "pin\n[REDACTED:pin]");
 * ```
 *
 * @module
 */
import type { LazyRule } from "./compiled_rule.ts";
import { partialWordStart } from "./rule_stream.ts";

/** So many characters are looked at together. */
export const WINDOW = 65_536;

/** One rule, of which nobody knows whether a match has begun, on a text that comes in pieces. */
export class WindowStream {
  readonly #rule: LazyRule;
  #held = "";

  constructor(rule: LazyRule) {
    this.#rule = rule;
  }

  push(text: string): string {
    this.#held += text;
    if (this.#held.length <= WINDOW) return "";
    const middle = this.#held.length - WINDOW / 2;
    let end = this.#held.lastIndexOf("\n", middle) + 1 || middle;
    for (const match of this.#rule.for(this.#held)?.matches(this.#held) ?? []) {
      if (match.start < end) end = Math.max(end, match.end);
    }
    const given = this.#rule.apply(this.#held.slice(0, end));
    this.#held = this.#held.slice(end);
    return given;
  }

  /** Drops a word at the end, which may be a part of one, or the tail of a long one. */
  trim(): void {
    this.#held = this.#held.slice(0, partialWordStart(this.#held));
  }

  end(): string {
    const given = this.#rule.apply(this.#held);
    this.#held = "";
    return given;
  }

  cut(): string {
    return this.end();
  }
}
