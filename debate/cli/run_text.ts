/**
 * The text before and after a run.
 *
 * @module
 */
import type { DebateOutcome, DebateSetup } from "../ports.ts";
import type { CostEstimate } from "../events.ts";
import type { HistoryRole } from "../graph/state.ts";
import { createPaint, safeText, type Terminal, wrap } from "./terminal.ts";

/** What the banner shows besides the setup. */
export interface BannerFacts {
  readonly contextCharacters: number;
  readonly isRedacted: boolean;
  readonly tools: number;
}

/** The run in short, in a box. */
export function formatBanner(setup: DebateSetup, facts: BannerFacts, terminal: Terminal): string {
  const { models, maxRounds, confidenceThreshold, earlyOut, compressHistory, template } = setup;
  const earlyEnd = earlyOut.enabled ? `early end from ${earlyOut.threshold}` : "no early end";
  const context = facts.contextCharacters === 0
    ? "none"
    : `${facts.contextCharacters} characters, secrets ${facts.isRedacted ? "masked" : "NOT masked"}`;
  const rows: readonly (readonly [string, string])[] = [
    ["Topic", setup.topic],
    ["Diagnostic", models.diagnostic.id],
    ["Skeptic", models.skeptic.id],
    ["Moderator", models.moderator.id],
    ["Rounds", `at most ${maxRounds}, history ${compressHistory ? "summarised from round 3" : "in full"}`],
    ["Confidence", `${confidenceThreshold} needed, ${earlyEnd}`],
    ["Template", `${template.name} (${template.language})`],
    ["Context", context],
    ["Tools", facts.tools === 0 ? "none" : `${facts.tools}, run without asking`],
  ];
  const inner = Math.max(30, terminal.width - 4);
  const lines = rows.flatMap(([name, value]) => {
    const wrapped = wrap(safeText(value).replace(/\s+/g, " "), inner - 12);
    return wrapped.map((line, index) => `${(index === 0 ? name : "").padEnd(12)}${line}`);
  });
  return box("Debate", lines, inner, terminal);
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

const ROLE_TITLES = {
  diagnostic_agent: "Primary Diagnosis",
  skeptic_agent: "Skeptical Reviewer",
  diagnostic_rebuttal: "Rebuttal",
  moderator: "Moderator",
  user: "Operator",
} as const satisfies Record<HistoryRole, string>;

/** The whole debate, under headings. */
export function formatHistory({ history }: DebateOutcome, terminal: Terminal): string {
  return history.map(({ role, round, content }) =>
    `${title(`Round ${round}: ${ROLE_TITLES[role]}`, terminal)}\n${safeText(content).trim()}\n\n`
  ).join("");
}

/** The result. */
export function formatResult({ finalText }: DebateOutcome, terminal: Terminal): string {
  const lines = wrap(safeText(finalText), terminal.width);
  return `${title("Final result", terminal)}\n${lines.join("\n")}\n`;
}

function title(text: string, terminal: Terminal): string {
  return `${createPaint(terminal.outColour)("bold", text)}\n${"-".repeat(text.length)}`;
}

/** The time, tokens and cost of the run. */
export function formatCosts(
  { usage, history }: DebateOutcome,
  { total_usd }: CostEstimate,
  milliseconds: number,
): string {
  const rounds = Math.max(0, ...history.map(({ round }) => round));
  const { input_tokens, output_tokens } = usage.total;
  const cost = total_usd === null ? "cost unknown" : `about $${total_usd.toFixed(4)}`;
  const time = `${(milliseconds / 1000).toFixed(1)} s`;
  return `\n${rounds} ${rounds === 1 ? "round" : "rounds"}, ${time}, ` +
    `${input_tokens} tokens in and ${output_tokens} out, ${cost}\n`;
}
