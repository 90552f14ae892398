/**
 * The text before and after a run.
 *
 * @module
 */
import type { DebateOutcome, DebateSetup } from "../engine/ports.ts";
import type { CostEstimate } from "../engine/events.ts";
import { type HistoryRole, ROLES } from "../engine/graph/state.ts";
import { type Words, wordsFor } from "./words.ts";
import { createPaint, safeText, type Terminal, wrap } from "./terminal.ts";

/** What the banner shows besides the setup. */
interface BannerFacts {
  readonly contextCharacters: number;
  readonly isRedacted: boolean;
  readonly tools: number;
}

/** The run in short, in a box. */
export function formatBanner(setup: DebateSetup, facts: BannerFacts, terminal: Terminal): string {
  const { models, maxRounds, confidenceThreshold, earlyOut, compressHistory, template } = setup;
  const words = wordsFor(setup.language);
  const context = facts.contextCharacters === 0
    ? words.noContext
    : words.contextValue(facts.contextCharacters, facts.isRedacted);
  const rows: readonly (readonly [string, string])[] = [
    [words.topic, setup.topic],
    [words.diagnostic, models.diagnostic.id],
    [words.skeptic, models.skeptic.id],
    [words.moderator, models.moderator.id],
    [words.rounds, words.roundsValue(maxRounds, compressHistory)],
    [
      words.confidence,
      words.confidenceValue(confidenceThreshold, earlyOut.enabled ? earlyOut.threshold : undefined),
    ],
    [words.template, `${template.name} (${template.language})`],
    [words.context, context],
    [words.tools, facts.tools === 0 ? words.noTools : words.toolsValue(facts.tools)],
  ];
  const inner = Math.max(30, terminal.width - 4);
  const lines = rows.flatMap(([name, value]) => {
    const wrapped = wrap(safeText(value).replace(/\s+/g, " "), inner - 12);
    return wrapped.map((line, index) => `${(index === 0 ? name : "").padEnd(12)}${line}`);
  });
  return box(words.debate, lines, inner, terminal);
}

function box(title: string, lines: readonly string[], inner: number, terminal: Terminal): string {
  const paint = createPaint(terminal.errColour);
  // A frame helps only readers at a terminal.
  if (!terminal.isLive) return lines.map((line) => `${line}\n`).join("");
  const bar = paint("dim", "│");
  const top = paint("dim", `╭─ ${title} ${"─".repeat(Math.max(0, inner - title.length - 1))}╮`);
  const rows = lines.map((line) => `${bar} ${line.slice(0, inner).padEnd(inner)} ${bar}`);
  return `${[top, ...rows, paint("dim", `╰${"─".repeat(inner + 2)}╯`)].join("\n")}\n`;
}

const HISTORY_ROLES = {
  diagnostic_agent: ROLES.diagnostic_agent,
  skeptic_agent: ROLES.skeptic_agent,
  diagnostic_rebuttal: ROLES.diagnostic_rebuttal_agent,
  moderator: ROLES.moderator_agent,
  user: undefined,
} as const satisfies Record<HistoryRole, string | undefined>;

function roleTitle(role: HistoryRole, { roles, operator }: Words): string {
  const name = HISTORY_ROLES[role];
  return name === undefined ? operator : roles[name] ?? name;
}

export function formatHistory({ history }: DebateOutcome, language: string, terminal: Terminal): string {
  const words = wordsFor(language);
  return history.map(({ role, round, content }) =>
    `${title(`${words.round} ${round}: ${roleTitle(role, words)}`, terminal)}\n${
      safeText(content).trim()
    }\n\n`
  ).join("");
}

export function formatResult({ finalText }: DebateOutcome, language: string, terminal: Terminal): string {
  const lines = wrap(safeText(finalText), terminal.width);
  return `${title(wordsFor(language).finalResult, terminal)}\n${lines.join("\n")}\n`;
}

function title(text: string, terminal: Terminal): string {
  return `${createPaint(terminal.outColour)("bold", text)}\n${"-".repeat(text.length)}`;
}

/** The time, tokens and cost of the run. */
export function formatCosts(
  { usage, history }: DebateOutcome,
  { total_usd }: CostEstimate,
  milliseconds: number,
  language: string,
): string {
  const rounds = Math.max(0, ...history.map(({ round }) => round));
  const { input_tokens, output_tokens } = usage.total;
  const seconds = (milliseconds / 1000).toFixed(1);
  const { costs } = wordsFor(language);
  return `\n${costs(rounds, seconds, input_tokens, output_tokens, total_usd?.toFixed(4))}\n`;
}
