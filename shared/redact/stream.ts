/**
 * Masks secrets in text that comes in pieces, as a command's output does: a secret is found wherever the pieces
 * end.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { createRedactStreams } from "@gateway/shared/redact";
 *
 * const openStream = createRedactStreams(undefined);
 * const stream = openStream();
 * assert.equal(stream.push("a\n-----BEGIN PRIVATE KEY-----\nMIIE"), "a\n[REDACTED:private-key-block]");
 * assert.equal(stream.push("vg\n-----END PRIVATE KEY-----\nb\nc"), "\nb\n");
 * assert.equal(stream.end(), "c");
 * ```
 *
 * The pieces together are what `createRedactor` makes of the whole text, with two exceptions, both of which mask
 * more: a value whose quote is not closed within 16,384 characters is masked up to where it is, and so is a word of
 * that length, of which a beginning looks like a secret. Whole lines are given as soon as no secret can have begun
 * in them; of the rest, no more than those 16,384 characters wait for each rule.
 *
 * A rule of the operator that can't match a line break is found in lines up to that length. Of one that can, nobody
 * knows whether it has begun: text waits until there are 65,536 characters, and a secret of half as
 * many is found.
 *
 * @module
 */
import { type CompiledRule, compileRules, type LazyRule } from "./redact.ts";
import type { RedactConfig } from "./rules.ts";

/** A text that comes in pieces. */
export interface RedactStream {
  /** Takes the next piece; gives what is certain, of this one and of those before. */
  push(text: string): string;
  end(): string;
  /** Gives what is left of a text that was cut off, without what may be the beginning of a secret. */
  cut(): string;
}

/** Begins a text. */
export type OpenRedactStream = () => RedactStream;

/**
 * The rules of `createRedactor`, for texts that come in pieces.
 *
 * @throws {AppError} `invalid_config` that names every pattern that is not RE2
 */
export function createRedactStreams(config: RedactConfig | undefined): OpenRedactStream {
  const { builtIn, own } = compileRules(config);
  return () => {
    const stages: readonly (RuleStream | WindowStream)[] = [
      ...builtIn.map((rule) => new RuleStream(rule)),
      ...own.map((rule) => staysInLine(rule.rule.regex) ? new RuleStream(rule) : new WindowStream(rule)),
    ];
    const pass = (text: string, finish: (stage: RuleStream | WindowStream) => string) =>
      stages.reduce((masked, stage) => stage.push(masked) + finish(stage), text);
    return {
      push: (text) => pass(text, () => ""),
      end: () => pass("", (stage) => stage.end()),
      cut() {
        stages[0]?.trim();
        return pass("", (stage) => stage.cut());
      },
    };
  };
}

/** Whether an expression has nothing in it that a line break could match; `false` when that is not plain to see. */
function staysInLine(regex: string): boolean {
  const classes = /\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*\]/g;
  const isNarrow = (text: string) =>
    text.startsWith("[^") ? /\\[ns]/.test(text) : !/\\[nsDWHVPpx0-7rvf]|[\n\r]|\[:\^|space/.test(text);
  const rest = regex.replace(classes, (found) => isNarrow(found) ? "c" : "\n");
  return !/\n|\\[nsDWHVPpCQx0-7rvf]|\(\?[A-Za-z]*s/.test(rest);
}

/** So many characters of a line or a secret are held, until it is given in parts or masked without its end. */
export const MAX_HELD = 16_384;

/** So much of a word of {@linkcode MAX_HELD} characters is held back when its beginning is given. */
const WORD_TAIL = 1024;
/** The longest end of a key that is looked for. */
const KEY_END_LENGTH = 128;
/** More than a rule has before its secret, where every run of blanks is one. */
const LEAD_LENGTH = 200;

const KEY_END = /-----END[A-Z0-9 ]*PRIVATE KEY-----/;
const QUOTES = ['"', "'"];

/** A match that extends beyond the end. */
interface Open {
  readonly start: number;
  /** Where its secret begins, or the end of the text when it has not begun. */
  readonly secret: number;
  /** Whatever comes, this is a secret. */
  readonly isCertain: boolean;
}

/**
 * One rule on a text that comes in pieces. It looks at whole lines; of a line that is too long, at whole words.
 * What comes before a match that may have begun is given, the rest is held.
 */
class RuleStream {
  readonly #rule: LazyRule;
  #held = "";
  /** What has been given of the beginning of a match, as far as the rule is concerned. */
  #lead = "";
  /** Until then, nothing that comes changes what is known. */
  #waitsFor: RegExp | undefined;
  /** The end of a secret whose mark has been given. */
  #secretEnd: RegExp | undefined;

  constructor(rule: LazyRule) {
    this.#rule = rule;
  }

  push(text: string): string {
    if (text === "") return "";
    this.#held += text;
    if (this.#held.length <= MAX_HELD && this.#isIdle(text)) return "";
    this.#waitsFor = undefined;
    let given = "";
    for (;;) {
      if (!this.#passSecret()) return given;
      const end = this.#wholeEnd();
      const open = this.#findOpen(end);
      if (open === undefined) return given + this.#give(end);
      given += this.#give(open.start);
      const secret = open.secret - Math.max(0, open.start);
      const isBegun = open.secret < end;
      if (isBegun && (open.isCertain || this.#held.length > MAX_HELD)) {
        given += this.#maskOpen(secret);
      } else if (this.#held.length > MAX_HELD) {
        return given + this.#giveAhead(end - Math.max(0, open.start));
      } else {
        this.#waitsFor = isBegun ? quoteAt(this.#held, secret) ?? /\S/ : /\S/;
        return given;
      }
    }
  }

  /** Drops a word at the end, which may be a part of one, or the tail of a long one. */
  trim(): void {
    this.#held = this.#held.slice(0, partialWordStart(this.#held));
  }

  end(): string {
    return this.#passSecret() ? this.#give(this.#held.length) : "";
  }

  cut(): string {
    if (!this.#passSecret()) return "";
    const end = this.#held.length;
    const open = this.#findOpen(end);
    if (open === undefined || open.secret >= end) return this.#give(end);
    return this.#give(open.start) + this.#maskOpen(open.secret - Math.max(0, open.start));
  }

  /** Whether a new piece can't make anything certain. What is held is not looked through again for each. */
  #isIdle(text: string): boolean {
    if (this.#secretEnd !== undefined) return false;
    return !text.includes("\n") || this.#waitsFor?.test(text) === false;
  }

  /** Drops the rest of a secret whose mark has been given; `false` while it has not ended. */
  #passSecret(): boolean {
    if (this.#secretEnd === undefined) return true;
    const found = this.#secretEnd.exec(this.#held);
    if (found === null) {
      this.#held = this.#held.slice(-KEY_END_LENGTH);
      return false;
    }
    this.#held = this.#held.slice(found.index + found[0].length);
    this.#secretEnd = undefined;
    return true;
  }

  /** How much can be looked at. */
  #wholeEnd(): number {
    const lines = this.#held.lastIndexOf("\n") + 1;
    if (this.#held.length - lines <= MAX_HELD) return lines;
    return Math.max(lines, afterLastBlank(this.#held)) || this.#held.length - WORD_TAIL;
  }

  /** The first match that may extend beyond an end, or crosses it. */
  #findOpen(end: number): Open | undefined {
    const rule = this.#rule.for(this.#lead + this.#held);
    if (rule === undefined) return undefined;
    const text = this.#lead + this.#held.slice(0, end);
    const { goesOn = [] } = this.#rule.rule;
    const probes = goesOn.filter((probe) => !QUOTES.includes(probe) || text.includes(probe));
    if (/\S$/.test(text)) probes.push("x", this.#held.slice(end));
    let found: Open | undefined;
    for (const probe of probes) {
      const open = crossing(rule, text, probe);
      if (open !== undefined && open.start < (found?.start ?? Infinity)) found = open;
    }
    return found && {
      ...found,
      start: found.start - this.#lead.length,
      secret: found.secret - this.#lead.length,
    };
  }

  /** Gives the text before a place in what is held; nothing when that is before it. */
  #give(end: number): string {
    if (end <= 0) return "";
    const text = this.#lead + this.#held.slice(0, end);
    const given = this.#rule.apply(text).slice(this.#lead.length);
    this.#held = this.#held.slice(end);
    this.#lead = "";
    return given;
  }

  /** Gives a mark for the open secret that what is held begins with, or has at a place. */
  #maskOpen(secret: number): string {
    const mark = this.#rule.for(this.#lead + this.#held)?.mark ?? "";
    const given = this.#held.slice(0, secret) + mark;
    this.#secretEnd = quoteAt(this.#held, secret) ??
      (this.#held.startsWith("-----BEGIN", secret) ? KEY_END : /(?=[\s"'])/);
    this.#held = this.#held.slice(secret + 1);
    this.#lead = "";
    return given;
  }

  /** Gives what comes before a secret that has not begun, and remembers that it was there. */
  #giveAhead(end: number): string {
    const given = this.#held.slice(0, end);
    const lead = (this.#lead + given).replace(/\s+/g, " ");
    this.#lead = lead.length <= LEAD_LENGTH ? lead : `${lead.slice(0, LEAD_LENGTH)} `;
    this.#held = this.#held.slice(end);
    return given;
  }
}

/** The first match of a text and a probe that begins in the text and ends behind it. */
function crossing(rule: CompiledRule, text: string, probe: string): Open | undefined {
  for (const { start, end, secretStart } of rule.matches(text + probe)) {
    if (end <= text.length || start >= text.length) continue;
    return {
      start,
      secret: Math.min(secretStart, text.length),
      isCertain: probe === "x" && secretStart < text.length,
    };
  }
  return undefined;
}

/** Where the last word of a text that was cut off begins; of a very long one, where its tail does. */
function partialWordStart(text: string): number {
  return Math.max(afterLastBlank(text), text.length - WORD_TAIL);
}

/** Where the last word of a text begins, which may be empty. */
function afterLastBlank(text: string): number {
  return text.search(/\s\S*$/) + 1;
}

function quoteAt(text: string, at: number): RegExp | undefined {
  const char = text.charAt(at);
  return char === '"' ? /"/ : char === "'" ? /'/ : undefined;
}

/** So many characters are looked at together. */
const WINDOW = 65_536;

/** One rule, of which nobody knows whether a match has begun, on a text that comes in pieces. */
class WindowStream {
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
