import type { Clock } from "@gateway/shared/clock";
import { holdDebate } from "../engine/agents/hold_debate.ts";
import { CAPS, groundingOf } from "../engine/graph/evidence.ts";
import { NO_WORD } from "../engine/graph/operator.ts";
import type { Hypothesis } from "../engine/graph/state.ts";
import type { TokenTotals } from "../engine/events.ts";
import type { DebateOutcome, DebateSetup, Tool, ToolResult } from "../engine/ports.ts";
import { contextOf, type Incident, type RecordedAnswer } from "./incident.ts";
import { type Arm, type ArmModels, setupOf } from "./arms.ts";
import { scoreAnswer } from "./score.ts";
import { type Model, ModelError, type ModelReply, type ModelRequest } from "../engine/model.ts";
import { callKey } from "../engine/agents/tool_cache.ts";

export type Trial = Readonly<Awaited<ReturnType<typeof holdTrial>>>;

/** What trials have in common. */
export interface TrialRules {
  readonly template: DebateSetup["template"];
  readonly language: string;
  readonly maxRounds: number;
  readonly confidenceThreshold: number;
  readonly earlyOut: DebateSetup["earlyOut"];
  readonly toolBudget: number;
  readonly tokenBudget: number;
  /** In US dollars; `null` when no price is known. */
  readonly costOf: (
    usage: TokenTotals,
    models: Readonly<Record<keyof ArmModels | "summary", string>>,
  ) => number | null;
  readonly timeouts: NonNullable<DebateSetup["timeouts"]>;
}

interface TrialPorts {
  readonly clock: Clock;
  readonly newId: () => string;
  readonly signal: AbortSignal;
  readonly warn?: (message: string) => void;
}

interface TrialPlan {
  readonly incident: Incident;
  readonly arm: Arm;
  readonly run: number;
  readonly models: ArmModels;
}

/** Holds a trial. A model that fails makes a wrong answer, not a missing one. */
export async function holdTrial(plan: TrialPlan, rules: TrialRules, ports: TrialPorts) {
  const { incident, arm, run, models } = plan;
  const budget = new TokenBudget(rules.tokenBudget);
  const bound = {
    diagnostic: budget.bound(models.diagnostic),
    skeptic: budget.bound(models.skeptic),
    moderator: budget.bound(models.moderator),
  };
  const setup: DebateSetup = {
    runId: "0".repeat(32),
    topic: incident.topic,
    context: contextOf(incident),
    ...setupOf(arm, bound, rules.toolBudget),
    efforts: { diagnostic: "none", skeptic: "none", moderator: "none" },
    maxRounds: rules.maxRounds,
    confidenceThreshold: rules.confidenceThreshold,
    earlyOut: rules.earlyOut,
    compressHistory: true,
    template: rules.template,
    language: rules.language,
    maxConsecutiveErrors: 3,
    timeouts: rules.timeouts,
  };
  const startedAt = ports.clock.now();
  const outcome = await holdDebate(setup, {
    emit: () => {},
    tools: arm === "blind" ? [] : frozenTools(incident.tools),
    approve: () => Promise.resolve("auto"),
    isPaused: () => false,
    waitForComment: () => Promise.resolve(NO_WORD),
    audit: () => {},
    ...ports,
  });
  const seconds = Math.max(0, Math.round(ports.clock.now() - startedAt)) / 1000;
  const { diagnostic, skeptic, moderator, summary } = setup.models;
  const ids = {
    diagnostic: diagnostic.id,
    skeptic: skeptic.id,
    moderator: moderator.id,
    summary: summary.id,
  };
  const ending = outcome.status === "error" && budget.isOver ? "out_of_budget" : outcome.status;
  return {
    incident: incident.id,
    kind: incident.truth.fault,
    arm,
    run,
    ...judge(outcome, incident),
    tokens: budget.spent,
    cost_usd: rules.costOf(outcome.usage, ids),
    tool_calls: outcome.toolLog.length,
    rounds: outcome.roundLog.length,
    seconds,
    ending,
    problem: outcome.error ?? null,
  };
}

function judge(outcome: DebateOutcome, incident: Incident) {
  const lead = leadOf(outcome);
  const { decision } = outcome;
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

/** The hypothesis that the decision names; of a run that came to none, the likeliest that was not rejected. */
function leadOf({ decision, hypotheses }: DebateOutcome): Hypothesis | undefined {
  if (decision !== undefined) return hypotheses.find(({ id }) => id === decision.grounding?.hypothesis_id);
  return hypotheses.filter(({ state }) => state !== "rejected")
    .toSorted((a, b) => (b.probability ?? 0) - (a.probability ?? 0))[0];
}

/** What is left; the call that crosses the limit is the last one. */
class TokenBudget {
  readonly #limit: number;
  #spent = 0;

  constructor(limit: number) {
    this.#limit = limit;
  }

  get isOver(): boolean {
    return this.#spent >= this.#limit;
  }

  get spent(): number {
    return this.#spent;
  }

  bound(model: Model): Model {
    return {
      id: model.id,
      complete: async (request) => {
        if (this.isOver) throw new ModelError("canceled", "The budget of tokens is used up");
        try {
          const reply = await model.complete(request);
          this.#spent += tokensOf(request, reply);
          return reply;
        } catch (error) {
          if (error instanceof ModelError) this.#spent += error.usage?.total_tokens ?? 0;
          throw error;
        }
      },
    };
  }
}

const CHARACTERS_PER_TOKEN = 4;

function tokensOf({ messages }: ModelRequest, { usage, text, toolCalls }: ModelReply): number {
  if (usage !== undefined && usage.total_tokens > 0) return usage.total_tokens;
  const written = text.length + toolCalls.reduce((sum, call) => sum + call.arguments.length, 0);
  const read = messages.reduce((sum, { content }) => sum + content.length, 0);
  return Math.ceil((read + written) / CHARACTERS_PER_TOKEN);
}

/** What was recorded can be asked for exactly; a scan of it all is not what is measured. */
const MAX_LISTED = 60;
const MAX_TEXT = 8000;

export function frozenTools(answers: readonly RecordedAnswer[]): readonly Tool[] {
  const byTool = Map.groupBy(answers, ({ tool }) => tool);
  return [...byTool].map(([name, recorded]) => new FrozenTool(name, recorded));
}

class FrozenTool implements Tool {
  readonly name: string;
  readonly description: string;
  readonly parameters: Readonly<Record<string, unknown>>;
  readonly #answers: ReadonlyMap<string, RecordedAnswer>;
  readonly #recorded: readonly RecordedAnswer[];

  constructor(name: string, recorded: readonly RecordedAnswer[]) {
    this.name = name;
    this.#recorded = recorded;
    this.#answers = new Map(recorded.map((each) => [keyOf(name, each.args), each]));
    this.description = `Gives what ${name} returned during the incident. Recorded arguments: ${this.#list()}`;
    const keys = [...new Set(recorded.flatMap(({ args }) => Object.keys(args)))];
    this.parameters = {
      type: "object",
      properties: Object.fromEntries(keys.map((key) => [key, { description: "as recorded" }])),
    };
  }

  run(args: unknown): Promise<ToolResult> {
    const asked = typeof args === "object" && args !== null && !Array.isArray(args) ? { ...args } : {};
    const found = this.#answers.get(keyOf(this.name, asked));
    if (found === undefined) {
      const text = `Tool error: nothing was recorded for these arguments; recorded are ${this.#list()}`;
      return Promise.resolve({ ok: false, text });
    }
    // The first line names the request: evidence must not be quoted from it.
    const text = `${this.name} ${JSON.stringify(found.args)}\n${
      found.result.slice(0, MAX_TEXT).toWellFormed()
    }`;
    return Promise.resolve({ ok: true, text });
  }

  #list(): string {
    const listed = this.#recorded.slice(0, MAX_LISTED).map(({ args }) => JSON.stringify(args)).join(" ");
    const more = this.#recorded.length - MAX_LISTED;
    return more > 0 ? `${listed} and ${more} more` : listed;
  }
}

function keyOf(name: string, args: Readonly<Record<string, unknown>>): string {
  const said = Object.entries(args).filter(([, value]) => value !== "" && value !== null && value !== false);
  return callKey(name, Object.fromEntries(said));
}
