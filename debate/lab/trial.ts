import type { Clock } from "@gateway/shared/clock";
import { conductDebate } from "../engine/agents/conduct_debate.ts";
import { callKey, estimateUsage } from "../engine/agents/debate.ts";
import { CAPS, groundingOf } from "../engine/graph/evidence.ts";
import { isObject } from "../engine/graph/text.ts";
import { NO_INPUT } from "../engine/graph/hypotheses.ts";
import { type DebateOutcome, type DebateSetup, type Model, ModelError, type Tool } from "../engine/ports.ts";
import { estimateCost, type loadPrices } from "../models/prices.ts";
import type { RunModels } from "../runs/record.ts";
import { contextOf, type Incident, type RecordedAnswer } from "./incidents.ts";
import { forDebaters } from "../settings/config.ts";
import { scoreAnswer } from "./score.ts";

interface ArmRules {
  readonly models: 1 | 3;
  readonly tools: number;
  readonly sampling?: DebateSetup["sampling"];
}

/** The ways of diagnosing. A single agent has as many tool calls as a debate. `blind` is a control. */
const RULES_OF_ARMS = {
  single: { models: 1, tools: 3, sampling: { count: 1, then: "vote" } },
  vote: { models: 1, tools: 1, sampling: { count: 3, then: "vote" } },
  debate_one: { models: 1, tools: 1 },
  debate_three: { models: 3, tools: 1 },
  sample_then_debate: { models: 3, tools: 1, sampling: { count: 3, then: "debate" } },
  blind: { models: 1, tools: 0, sampling: { count: 1, then: "vote" } },
} as const satisfies Readonly<Record<string, ArmRules>>;

export type Arm = keyof typeof RULES_OF_ARMS;
export const ARMS = Object.keys(RULES_OF_ARMS) as readonly Arm[];
export type Trial = Readonly<Awaited<ReturnType<typeof runTrial>>>;

/** The plan of a benchmark. Its hash is published before the first run. */
export interface Protocol {
  readonly arms: readonly Arm[];
  readonly runs: number;
  readonly token_budget: number;
  readonly tool_budget: number;
  readonly max_rounds: number;
  readonly confidence_threshold: number;
  readonly early_out: { readonly enabled: boolean; readonly threshold: number };
  readonly model_timeout_seconds: number;
  readonly template: string;
  readonly language: string;
  /** Hash of the template and of the text that the program adds. */
  readonly prompts_sha256: string;
  readonly models: RunModels;
}

export function taskOf(
  { max_rounds, confidence_threshold, early_out, language }: Omit<Protocol, "prompts_sha256">,
) {
  return {
    ...{ maxRounds: max_rounds, confidenceThreshold: confidence_threshold, earlyOut: early_out, language },
    compressHistory: true,
  };
}

/** Runs a trial. The failure of a model counts as a wrong answer. */
export async function runTrial(
  { incident, arm, run, models: given }: {
    readonly incident: Incident;
    readonly arm: Arm;
    readonly run: number;
    readonly models: Readonly<Record<keyof RunModels, Model>>;
  },
  { protocol, template, prices }: {
    readonly protocol: Protocol;
    readonly template: DebateSetup["template"];
    readonly prices: Awaited<ReturnType<typeof loadPrices>>;
  },
  ports: { readonly clock: Clock; readonly newId: () => string; readonly signal: AbortSignal },
) {
  const budget = { limit: protocol.token_budget, spent: 0 };
  const { models: count, tools, sampling }: ArmRules = RULES_OF_ARMS[arm];
  const debaters = forDebaters((role) => withBudget(given[count === 1 ? "diagnostic" : role], budget));
  const models = { ...debaters, summary: debaters.moderator };
  const startedAt = ports.clock.now();
  const outcome = await conductDebate({
    ...taskOf(protocol),
    template,
    runId: "0".repeat(32),
    topic: incident.topic,
    context: contextOf(incident),
    models,
    toolBudget: protocol.tool_budget * tools,
    timeouts: { modelMs: protocol.model_timeout_seconds * 1000 },
    ...(sampling !== undefined && { sampling }),
    efforts: forDebaters(() => "none"),
    maxConsecutiveErrors: 3,
  }, {
    ...ports,
    emit: () => {},
    tools: arm === "blind" ? [] : frozenTools(incident.tools),
    approve: () => Promise.resolve("auto"),
    isPaused: () => false,
    waitForComment: () => Promise.resolve(NO_INPUT),
    audit: () => {},
  });
  const isOver = outcome.status === "error" && budget.spent >= budget.limit;
  const ids = { ...forDebaters((role) => models[role].id), summary: models.summary.id };
  return {
    incident: incident.id,
    kind: incident.truth.fault,
    arm,
    run,
    ...judge(outcome, incident),
    tokens: budget.spent,
    cost_usd: estimateCost(outcome.usage, ids, prices).total_usd,
    tool_calls: outcome.toolLog.length,
    rounds: outcome.roundLog.length,
    seconds: Math.max(0, Math.round(ports.clock.now() - startedAt)) / 1000,
    ending: isOver ? "out_of_budget" : outcome.status,
    problem: outcome.error ?? null,
  };
}

function judge({ decision, hypotheses }: DebateOutcome, incident: Incident) {
  // The answer is the hypothesis of the decision. Without a decision, it is the likeliest open hypothesis.
  const lead = decision === undefined
    ? hypotheses.filter(({ state }) => state !== "rejected")
      .toSorted((a, b) => (b.probability ?? 0) - (a.probability ?? 0))[0]
    : hypotheses.find(({ id }) => id === decision.grounding?.hypothesis_id);
  const cap = CAPS[lead === undefined ? "none" : groundingOf(lead).level];
  const said = decision === undefined ? Math.min(lead?.probability ?? 0, cap ?? 1) : decision.confidence;
  const evidence = [...lead?.evidence ?? [], ...(lead?.reviews ?? []).flatMap((review) => review.evidence)];
  const used = evidence.filter(({ status }) => status === "grounded").flatMap(({ call_ids }) => call_ids);
  return {
    answer: lead?.text ?? "",
    score: scoreAnswer(lead?.text ?? "", incident),
    confidence: lead === undefined ? 0 : said,
    confident: decision?.grounding?.outcome === "cause",
    useful_tool_calls: new Set(used).size,
  };
}

/** Counts the tokens of a model. The call that exceeds the limit is the last one. */
function withBudget(model: Model, budget: { readonly limit: number; spent: number }): Model {
  return {
    id: model.id,
    async complete(request) {
      if (budget.spent >= budget.limit) throw new ModelError("canceled", "The token budget is exhausted");
      try {
        const reply = await model.complete(request);
        budget.spent += reply.usage?.total_tokens || estimateUsage(request, reply).total_tokens;
        return reply;
      } catch (error) {
        if (error instanceof ModelError) budget.spent += error.usage?.total_tokens ?? 0;
        throw error;
      }
    },
  };
}

const MAX_LISTED = 60;
const MAX_TEXT = 8000;

/** The tools answer only recorded calls, because the benchmark does not measure exhaustive scans. */
export function frozenTools(answers: readonly RecordedAnswer[]): readonly Tool[] {
  return [...Map.groupBy(answers, ({ tool }) => tool)].map(([name, recorded]) => {
    const known = new Map(recorded.map((each) => [keyOf(name, each.args), each]));
    const listed = recorded.slice(0, MAX_LISTED).map(({ args }) => JSON.stringify(args)).join(" ");
    const more = recorded.length - MAX_LISTED;
    const list = more > 0 ? `${listed} and ${more} more` : listed;
    const keys = [...new Set(recorded.flatMap(({ args }) => Object.keys(args)))];
    return {
      name,
      description: `Return the result of ${name} during the incident. Recorded arguments: ${list}`,
      parameters: {
        type: "object",
        properties: Object.fromEntries(keys.map((key) => [key, { description: "as recorded" }])),
      },
      run(args) {
        const found = known.get(keyOf(name, isObject(args) ? { ...args } : {}));
        const text = found === undefined
          ? `Tool error: no result was recorded for these arguments, only for ${list}`
          // The first line is the request, which is not evidence.
          : `${name} ${JSON.stringify(found.args)}\n${found.result.slice(0, MAX_TEXT).toWellFormed()}`;
        return Promise.resolve({ ok: found !== undefined, text });
      },
    };
  });
}

function keyOf(name: string, args: Readonly<Record<string, unknown>>): string {
  const said = Object.entries(args).filter(([, value]) => value !== "" && value !== null && value !== false);
  return callKey(name, Object.fromEntries(said));
}
