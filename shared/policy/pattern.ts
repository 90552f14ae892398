/**
 * The patterns of a policy: RE2, so that no pattern and no input takes more than linear time.
 *
 * A search is unanchored and case sensitive, on the code points of one text. `^` and `$` are the ends of the
 * text, `.` is anything but a line feed, `\s \d \w \b` are ASCII. Inline flags, `\A \z \Q..\E`, POSIX and
 * Unicode classes and named groups are legal; lookaround, backreferences, counts above 1000 and unknown
 * escapes are not patterns.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { compilePattern } from "@gateway/shared/policy";
 *
 * const uptime = compilePattern("^uptime$");
 * assert.equal(uptime.test("uptime"), true);
 * assert.equal(uptime.test("uptime -p"), false);
 * assert.throws(() => compilePattern("(?=x)"), { code: "invalid_config" });
 * ```
 *
 * @module
 */
import { RE2JS, RE2Set } from "re2js";
import { AppError, errorText } from "../errors.ts";
import { quoteText, shortenText } from "../text.ts";

/** One compiled pattern. */
export interface Pattern {
  /** The pattern as it was written. */
  readonly source: string;
  /** Whether it is found anywhere in the text. A lone surrogate counts as U+FFFD. */
  test(text: string): boolean;
}

/**
 * Compiles an RE2 pattern; once when a policy is loaded, never for a request.
 *
 * @throws {AppError} `invalid_config` when the text is not an RE2 pattern.
 */
export function compilePattern(source: string): Pattern {
  // No flags: LOOKBEHINDS would accept what RE2 does not, and give up linear time.
  const compiled = accept(source, () => RE2JS.compile(source, 0));
  return { source, test: (text) => compiled.test(text.toWellFormed()) };
}

/**
 * {@linkcode compilePattern} for those who only ask whether a pattern is one: it is read, and compiled when it is first
 * tested, if ever.
 *
 * @throws {AppError} `invalid_config` when the text is not an RE2 pattern.
 */
export function checkPattern(source: string): Pattern {
  accept(source, () => new RE2Set(RE2Set.UNANCHORED, 0).add(source));
  let compiled: Pattern | undefined;
  return { source, test: (text) => (compiled ??= compilePattern(source)).test(text) };
}

function accept<T>(source: string, read: () => T): T {
  // The engine takes a lone surrogate for a character; in UTF-8 it cannot occur, so it would never match.
  if (!source.isWellFormed()) throw invalid(source, "a lone surrogate is not text");
  try {
    return read();
  } catch (error) {
    throw invalid(source, errorText(error), error);
  }
}

/** A {@linkcode compilePattern} that compiles each source once, and what it has compiled. */
interface PatternReuse {
  /** Compiles a source, or gives the pattern that it knows. */
  readonly compile: typeof compilePattern;
  /** The patterns asked for so far, by source. */
  readonly patterns: ReadonlyMap<string, Pattern>;
}

/** Compiles only what is not known; a pattern has no state, so that many policies can share it. */
export function reusePatterns(
  known?: ReadonlyMap<string, Pattern>,
  compileNew: typeof compilePattern = compilePattern,
): PatternReuse {
  const patterns = new Map<string, Pattern>();
  const compile = (source: string): Pattern => {
    const pattern = patterns.get(source) ?? known?.get(source) ?? compileNew(source);
    patterns.set(source, pattern);
    return pattern;
  };
  return { compile, patterns };
}

function invalid(source: string, why: string, cause?: unknown): AppError {
  const message = `Cannot compile pattern ${quoteText(shortenText(source, 200))}: ${why}`;
  return new AppError("invalid_config", message, { cause });
}
