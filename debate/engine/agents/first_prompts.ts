/**
 * What each agent is sent in the first round, to look at a template before it is used.
 *
 * @module
 */
import { startState } from "../graph/flow.ts";
import type { DebateTask, NodeName } from "../graph/state.ts";
import type { ChatMessage } from "../model.ts";
import type { PromptTemplate } from "../../prompts/template.ts";
import { buildAgentPrompt, buildModeratorPrompt, buildSamplePrompt } from "./prompt.ts";

interface FirstPrompt {
  readonly node: NodeName;
  readonly messages: readonly ChatMessage[];
}

/** Those of all agents; before anybody has said anything. */
export function firstPrompts(task: DebateTask, template: PromptTemplate): readonly FirstPrompt[] {
  const state = startState(task, undefined);
  const agents = ["diagnostic_agent", "skeptic_agent", "diagnostic_rebuttal_agent"] as const;
  return [
    ...agents.map((node) => ({ node, messages: buildAgentPrompt(state, node, template) })),
    { node: "moderator_agent", messages: buildModeratorPrompt(state, template) },
  ];
}

/** The same, and that of an independent diagnosis. */
export function allFirstPrompts(task: DebateTask, template: PromptTemplate): readonly FirstPrompt[] {
  const messages = buildSamplePrompt(startState(task, undefined), template);
  return [...firstPrompts(task, template), { node: "sample_agent", messages }];
}
