import { viewHistory } from "../graph/compression.ts";
import { cut, fence } from "../graph/text.ts";
import { explainEvidence } from "../graph/grounding.ts";
import { type Labels, labelsFor } from "../graph/labels.ts";
import type { AgentNode, DebateState, DebateTask, HistoryEntry, NodeName } from "../graph/state.ts";
import type { ChatMessage } from "../model.ts";
import type { PromptTemplate } from "../../prompts/parse_template.ts";
import { DECISION_SKELETON, instructionsFor } from "./instructions.ts";
import { startState } from "../graph/flow.ts";

const MAX_SUMMARIZED_ENTRY = 2000;

type Block = readonly [label: string, text: string];

export function buildAgentPrompt(
  state: DebateState,
  node: AgentNode,
  template: PromptTemplate,
): readonly ChatMessage[] {
  const labels = labelsFor(state.task.language);
  const ask = instructionsFor(state.task.language);
  const { texts } = state;
  const common: readonly Block[] = [
    [labels.hypotheses, formatHypotheses(state)],
    ...historyBlocks(state, labels),
  ];
  switch (node) {
    case "diagnostic_agent":
      return conversation(state, template.diagnosticSystem, [
        [labels.round, String(state.round)],
        ...common,
        [labels.task, ask.diagnostic],
      ]);
    case "skeptic_agent":
      return conversation(state, template.skepticSystem, [
        [labels.diagnosis, fence(texts.diagnostic)],
        ...common,
        [labels.task, ask.skeptic],
      ]);
    case "diagnostic_rebuttal_agent":
      return conversation(state, template.diagnosticSystem, [
        [labels.ownDiagnosis, fence(texts.diagnostic)],
        [labels.critique, fence(texts.skeptic)],
        ...common,
        [labels.task, ask.rebuttal],
      ]);
  }
}

/** The messages for one of the independent diagnoses, which knows of no other. */
export function buildSamplePrompt(state: DebateState, template: PromptTemplate): readonly ChatMessage[] {
  const ask = instructionsFor(state.task.language);
  const task = labelsFor(state.task.language).task;
  return conversation(state, template.diagnosticSystem, [[task, `${ask.diagnostic}\n${ask.sample}`]]);
}

export function buildModeratorPrompt(state: DebateState, template: PromptTemplate): readonly ChatMessage[] {
  const labels = labelsFor(state.task.language);
  const ask = instructionsFor(state.task.language);
  const { task, texts, earlyOutSignal } = state;
  const wantsEnd = task.earlyOut.enabled && earlyOutSignal.recommended;
  return conversation(state, template.moderatorSystem, [
    [labels.round, String(state.round)],
    [labels.maxRounds, String(task.maxRounds)],
    [labels.threshold, String(task.confidenceThreshold)],
    [labels.earlyOutThreshold, String(task.earlyOut.threshold)],
    [labels.hypotheses, formatHypotheses(state)],
    ...historyBlocks(state, labels),
    [labels.diagnosis, fence(texts.diagnostic)],
    [labels.critique, fence(texts.skeptic)],
    [labels.rebuttal, fence(texts.rebuttal)],
    ...(wantsEnd
      ? [[labels.earlyOut, `${earlyOutSignal.confidence}: ${earlyOutSignal.rationale}`] as const]
      : []),
    [labels.task, `${ask.moderator}\n\n${ask.jsonOnly}\n${DECISION_SKELETON}`],
  ]);
}

/** The messages for a summary of what the previous summary does not cover. */
export function buildSummaryPrompt(
  state: DebateState,
  entries: readonly HistoryEntry[],
): readonly ChatMessage[] {
  const labels = labelsFor(state.task.language);
  const ask = instructionsFor(state.task.language);
  const shortened = entries.map((entry) => ({ ...entry, content: cut(entry.content, MAX_SUMMARIZED_ENTRY) }));
  const blocks: readonly Block[] = [
    [labels.topic, state.task.topic],
    ...(state.historySummary === "" ? [] : [[labels.summary, fence(state.historySummary)] as const]),
    [labels.hypotheses, formatHypotheses(state)],
    [labels.history, formatEntries(shortened)],
    [labels.task, `${ask.summary}\n${ask.untrusted}`],
  ];
  return [{ role: "user", content: formatBlocks(blocks) }];
}

function conversation(state: DebateState, system: string, blocks: readonly Block[]): readonly ChatMessage[] {
  const labels = labelsFor(state.task.language);
  const { topic, context } = state.task;
  const opening: readonly Block[] = [
    [labels.topic, topic],
    [labels.context, context === "" ? labels.noContext : fence(context)],
  ];
  return [
    { role: "system", content: `${system.trim()}\n\n${instructionsFor(state.task.language).untrusted}` },
    { role: "user", content: formatBlocks([...opening, ...blocks]) },
  ];
}

function formatBlocks(blocks: readonly Block[]): string {
  return blocks.map(([label, text]) => `${label}:\n${text}`).join("\n\n");
}

function historyBlocks(state: DebateState, labels: Labels): readonly Block[] {
  const { summary, entries } = viewHistory(state);
  const history: Block = [labels.history, entries.length === 0 ? labels.noHistory : formatEntries(entries)];
  return summary === "" ? [history] : [[labels.summary, fence(summary)], history];
}

function formatEntries(entries: readonly HistoryEntry[]): string {
  return entries.map(({ role, content }) => `[${role}]\n${fence(content)}`).join("\n\n");
}

function formatHypotheses({ hypotheses, task }: DebateState): string {
  const labels = labelsFor(task.language);
  if (hypotheses.length === 0) return labels.noHypotheses;
  return hypotheses.flatMap(({ id, state, probability, text, evidence, rejected_reason }) => [
    `- ${id} [${state}]${probability === null ? "" : ` [P=${Number(probability.toFixed(3))}]`}: ${text}`,
    ...evidence.map((line) => `    - ${line.text} (${explainEvidence(line.status, task.language)})`),
    ...(rejected_reason === null ? [] : [`    ${labels.rejectedBecause}: ${rejected_reason}`]),
  ]).join("\n");
}

interface FirstPrompt {
  readonly node: NodeName;
  readonly messages: readonly ChatMessage[];
}

export function firstPrompts(task: DebateTask, template: PromptTemplate): readonly FirstPrompt[] {
  const state = startState(task, undefined);
  const agents = ["diagnostic_agent", "skeptic_agent", "diagnostic_rebuttal_agent"] as const;
  return [
    ...agents.map((node) => ({ node, messages: buildAgentPrompt(state, node, template) })),
    { node: "moderator_agent", messages: buildModeratorPrompt(state, template) },
  ];
}

export function allFirstPrompts(task: DebateTask, template: PromptTemplate): readonly FirstPrompt[] {
  const messages = buildSamplePrompt(startState(task, undefined), template);
  return [...firstPrompts(task, template), { node: "sample_agent", messages }];
}
