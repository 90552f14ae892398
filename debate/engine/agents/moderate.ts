/**
 * The moderator's turn: it is asked for structured output, then for plain JSON; after that it counts as silent.
 *
 * @module
 */
import { cut } from "../graph/text.ts";
import { DECISION_SCHEMA, parseDecision, unusableDecision } from "../graph/decision.ts";
import { labelsFor } from "../graph/labels.ts";
import type { DebateState, Decision } from "../graph/state.ts";
import { type ChatMessage, ModelError } from "../model.ts";
import { callModel, type ModelCall } from "./call_model.ts";
import { DECISION_SKELETON, instructionsFor } from "./instructions.ts";
import { buildModeratorPrompt } from "./prompt.ts";
import { CASTING, type Debate } from "./debate.ts";

const MAX_RAW = 8000;

/** A decision, and the moderator's text when no decision could be read from it. */
interface Moderation {
  readonly decision: Decision;
  readonly raw?: string;
}

/** Asks for the decision of a round. */
export async function moderate(debate: Debate, state: DebateState): Promise<Moderation> {
  const { setup } = debate;
  const ask = instructionsFor(setup.language);
  const messages = buildModeratorPrompt(state, setup.template);
  const call: ModelCall = {
    node: "moderator_agent",
    round: state.round,
    model: setup.models.moderator,
    temperature: CASTING.moderator_agent.temperature,
    messages,
  };
  const first = await askForText(debate, { ...call, jsonSchema: DECISION_SCHEMA });
  const decision = parseDecision(first);
  if (decision !== undefined) return { decision };

  const said: readonly ChatMessage[] = first.trim() === ""
    ? []
    : [{ role: "assistant", content: cut(first, MAX_RAW) }];
  const reminder: ChatMessage = { role: "user", content: `${ask.jsonOnly}\n${DECISION_SKELETON}` };
  const second = await askForText(debate, { ...call, messages: [...messages, ...said, reminder] });
  const corrected = parseDecision(second);
  if (corrected !== undefined) return { decision: corrected };

  const labels = labelsFor(setup.language);
  const { unusable: missing, unusableNextStep: nextStep } = labels;
  const raw = cut((second.trim() === "" ? first : second).toWellFormed(), MAX_RAW);
  return { decision: unusableDecision({ missing, nextStep, stopReason: missing }), raw };
}

/** The reply's text; empty when the provider refuses the request as it is, or its reply cannot be read. */
async function askForText(debate: Debate, call: ModelCall): Promise<string> {
  try {
    return (await callModel(debate, call)).text;
  } catch (error) {
    if (error instanceof ModelError && error.kind === "bad_reply") return "";
    throw error;
  }
}
