import { RE2JSException } from "re2js";
import { singleQuote } from "../../text.ts";
import { Automaton, type Goal, type GroupedPattern } from "./automaton.ts";

/** The states after which an analysis is given up. */
const MOST_STATES = 20_000;

/** `gave up`: the patterns are too large, so nothing is proved. */
export type Analysis = "complete" | "gave up";

/** Searches texts by the patterns that match them, until a limit. */
export function searchTexts(patterns: readonly GroupedPattern[], goal: Goal, base?: Automaton): Analysis {
  try {
    return new Automaton(patterns, base).search(goal, MOST_STATES) ? "complete" : "gave up";
  } catch (error) {
    // A quotation without an end (\Q) swallows the parenthesis behind it.
    if (error instanceof RE2JSException) return "gave up";
    throw error;
  }
}

/** All that a parsed command can look like to patterns: words, also empty ones, joined by one space. */
export const ANY_WORDS = "^[^ \\x00-\\x08\\x0a-\\x1f\\x7f-\\x9f][^\\x00-\\x08\\x0a-\\x1f\\x7f-\\x9f]*$";

/** What most parsed commands look like: words that are not empty, and the first begins with no sign. */
export const PARSED_TEXT = "^[^ \\p{Cc}+-][^ \\p{Cc}]*(?: [^ \\p{Cc}]+)*$";

const PLAIN_WORD = /^[\w@%+=:,./-]+$/;

/** The command whose words, joined by one space, are the text. */
export function commandOf(isParsed: boolean, text: string): string {
  if (!isParsed) return text;
  return text.split(" ").map((word) => PLAIN_WORD.test(word) ? word : singleQuote(word)).join(" ");
}
