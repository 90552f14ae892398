import { findQuotes, toComparable } from "../../engine/graph/evidence.ts";

/**
 * Splits a result at the quotes of a line of evidence. Every second part is a quote. The comparison ignores what the
 * engine ignores. The first line names the request, so it contains no quote.
 */
export function splitQuoted(result: string, line: string): readonly string[] {
  const start = result.indexOf("\n") + 1;
  const body = result.slice(start);
  const readings = findQuotes(line).map((quotes) => {
    const patterns = quotes.map(toComparable).filter((quote) => quote !== "").map(patternOf);
    return patterns.length === 0 ? [body] : body.split(new RegExp(`(${patterns.join("|")})`, "giu"));
  });
  const [head = body, ...rest] = readings.toSorted((a, b) => quotedLength(b) - quotedLength(a))[0] ?? [];
  return [result.slice(0, start) + head, ...rest];
}

function quotedLength(parts: readonly string[]): number {
  return parts.reduce((sum, part, index) => index % 2 === 0 ? sum : sum + part.length, 0);
}

const BEGINS = String.raw`(?:(?<![\p{L}\p{N}])|(?![\p{L}\p{N}]))`;
const ENDS = String.raw`(?:(?![\p{L}\p{N}])|(?<![\p{L}\p{N}]))`;
/** What the comparison drops. Spaces are disjoint from it, so that the search takes linear time. */
const DROPPED = "[\\p{Cf}\\ufffd\"'`´‘’‚‛“”„‟«»‹›\\\\]*";

/** Matches a normalized quote as whole words and numbers. */
function patternOf(quote: string): string {
  const characters = [...quote].map((each) =>
    each === " "
      ? String.raw`[^\S\ufeff]+`
      : each === "-"
      ? String.raw`[\p{Pd}−]`
      : `\\u{${each.codePointAt(0)?.toString(16)}}`
  );
  return BEGINS + characters.join(DROPPED) + ENDS;
}
