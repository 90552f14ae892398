import type { Model } from "../engine/model.ts";
import type { DebateModels, DebateSetup } from "../engine/ports.ts";

export const ARMS = ["single", "vote", "debate_one", "debate_three", "sample_then_debate", "blind"] as const;

export type Arm = (typeof ARMS)[number];

export const ARM_NAMES: Readonly<Record<Arm, string>> = {
  single: "one agent",
  vote: "three diagnoses and a vote",
  debate_one: "debate, one model in all roles",
  debate_three: "debate, three models",
  sample_then_debate: "three diagnoses, debate where they differ",
  blind: "control: one agent without tools",
};

/** The models of a benchmark. */
export interface ArmModels {
  readonly diagnostic: Model;
  readonly skeptic: Model;
  readonly moderator: Model;
}

const SAMPLES = 3;
/** So that a single agent can spend what a debate spends. */
const SINGLE_TOOLS = 3;

export function setupOf(
  arm: Arm,
  { diagnostic, skeptic, moderator }: ArmModels,
  toolBudget: number,
): Pick<DebateSetup, "models" | "sampling" | "toolBudget"> {
  const one: DebateModels = { diagnostic, skeptic: diagnostic, moderator: diagnostic, summary: diagnostic };
  const three: DebateModels = { diagnostic, skeptic, moderator, summary: moderator };
  switch (arm) {
    case "single":
      return { models: one, sampling: { count: 1, then: "vote" }, toolBudget: toolBudget * SINGLE_TOOLS };
    case "blind":
      return { models: one, sampling: { count: 1, then: "vote" }, toolBudget: 0 };
    case "vote":
      return { models: one, sampling: { count: SAMPLES, then: "vote" }, toolBudget };
    case "debate_one":
      return { models: one, toolBudget };
    case "debate_three":
      return { models: three, toolBudget };
    case "sample_then_debate":
      return { models: three, sampling: { count: SAMPLES, then: "debate" }, toolBudget };
  }
}
