/**
 * What the log of a round keeps of its texts.
 *
 * @module
 */
import type { AgentNode, RoundTexts } from "./state.ts";
import { cut } from "./text.ts";

const MAX_LOGGED_TEXT = 500;

/** Where the text of each agent is kept. */
export const TEXT_KEYS = {
  diagnostic_agent: "diagnostic",
  skeptic_agent: "skeptic",
  diagnostic_rebuttal_agent: "rebuttal",
} as const satisfies Record<AgentNode, keyof RoundTexts>;

export const NO_TEXTS: RoundTexts = { diagnostic: "", skeptic: "", rebuttal: "" };

export function logged(text: string): string {
  return cut(text, MAX_LOGGED_TEXT);
}

/** The beginnings of all texts of a round. */
export function loggedTexts({ diagnostic, skeptic, rebuttal }: RoundTexts): RoundTexts {
  return { diagnostic: logged(diagnostic), skeptic: logged(skeptic), rebuttal: logged(rebuttal) };
}
