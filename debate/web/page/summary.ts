import type {
  HypothesisUpdateEvent,
  RunEvent,
  ToolApprovalRequestEvent,
  ToolCallEvent,
} from "../../engine/events.ts";
import type { Decision, Hypothesis } from "../../engine/graph/state.ts";
import { LANGUAGE, t } from "./language.ts";

/** An event with its time, as sent and stored. */
export type TimedEvent = RunEvent & { readonly timestamp?: string };

export type PendingCall = ToolApprovalRequestEvent & { readonly timestamp?: string };

interface Doing {
  readonly node: string;
  readonly tool?: string;
  readonly since: string | undefined;
}

/** The state of a run after its events so far. */
export interface Summary {
  round: number;
  maxRounds: number | undefined;
  threshold: number | undefined;
  hypotheses: readonly Hypothesis[];
  /** The hypotheses after each change, with round and agent. */
  readonly frames: {
    readonly round: number;
    readonly node: string;
    readonly hypotheses: readonly Hypothesis[];
  }[];
  /** The probability of each hypothesis over time, by ID. */
  readonly shares: Map<
    string,
    readonly { readonly round: number; readonly node: string; readonly share: number }[]
  >;
  decision: Decision | undefined;
  readonly calls: Map<string, ToolCallEvent>;
  /** Pending calls by ID, with the time of their request and the text that the agent wrote with the call. */
  readonly approvals: Map<string, PendingCall>;
  /** The calls that are approved for the whole run, by the ID of the first. */
  readonly allowed: Map<string, Pick<ToolApprovalRequestEvent, "call_id" | "tool_name" | "args">>;
  /** The current pause of a model because of a rate limit. `tries` counts the pauses of this model call. */
  limited:
    | { readonly timestamp?: string | undefined; readonly seconds: number; readonly tries: number }
    | undefined;
  /** The time of the request for a comment. */
  pausedAt: string | undefined;
  /** The agent that speaks, and the tool that runs for it. */
  doing: Doing | undefined;
  tokens: number | undefined;
  problem: string;
  /** The run was imported and not checked here. */
  imported: boolean;
}

/** Starts an empty summary. The page shows it before the conversation. */
export function beginSummary(imported = false): Summary {
  return {
    round: 0,
    maxRounds: undefined,
    threshold: undefined,
    hypotheses: [],
    frames: [],
    shares: new Map(),
    decision: undefined,
    calls: new Map(),
    approvals: new Map(),
    allowed: new Map(),
    limited: undefined,
    pausedAt: undefined,
    doing: undefined,
    tokens: undefined,
    problem: "",
    imported,
  };
}

/** Adds an event to the summary. */
export function tell(summary: Summary, event: TimedEvent): void {
  if ("total_tokens" in event && typeof event.total_tokens === "number") summary.tokens = event.total_tokens;
  switch (event.type) {
    case "run_started":
      Object.assign(summary, {
        round: event.round,
        maxRounds: event.max_rounds,
        threshold: event.confidence_threshold,
      });
      break;
    case "agent_turn_started":
      speak(summary, event.agent_node, event);
      break;
    case "agent_reasoning":
      summary.limited = undefined;
      break;
    case "agent_delta":
      if (summary.doing?.node !== event.agent_node) speak(summary, event.agent_node, event);
      summary.limited = undefined;
      break;
    case "agent_completed":
    case "agent_skipped":
      // The moderator sends no event when it begins.
      if (event.node === "diagnostic_rebuttal_agent") speak(summary, "moderator_agent", event);
      else Object.assign(summary, { doing: undefined, limited: undefined });
      break;
    case "tool_approval_request":
      summary.approvals.set(event.call_id, event);
      // The agent waits for the operator.
      summary.doing = undefined;
      break;
    case "tool_approval_resolved": {
      const asked = summary.approvals.get(event.call_id);
      summary.approvals.delete(event.call_id);
      if (event.for_run && asked !== undefined) summary.allowed.set(event.call_id, asked);
      break;
    }
    case "tool_approval_revoked":
      summary.allowed.delete(event.call_id);
      break;
    case "tool_call_started":
      speak(summary, event.agent_node, event, event.tool_name);
      break;
    case "tool_call":
      summary.calls.set(event.call_id, event);
      speak(summary, event.agent_node, event);
      break;
    case "hypothesis_update":
      tellHypotheses(summary, event);
      break;
    case "moderator_decision":
      Object.assign(summary, {
        decision: event.decision,
        round: event.round,
        doing: undefined,
        limited: undefined,
      });
      break;
    case "model_waiting":
      summary.limited = {
        timestamp: event.timestamp,
        seconds: event.seconds,
        tries: (summary.limited?.tries ?? 0) + 1,
      };
      break;
    case "awaiting_user_input":
      summary.pausedAt = event.timestamp;
      break;
    case "user_comment":
      summary.pausedAt = undefined;
      break;
    case "error":
      summary.problem = event.message;
      break;
    case "run_finished":
      endSummary(summary);
      break;
  }
}

function speak(summary: Summary, node: string, { timestamp: since }: TimedEvent, tool?: string): void {
  summary.doing = { node, since, ...(tool !== undefined && { tool }) };
}

/** Removes the pending requests of a finished run. */
export function endSummary(summary: Summary): void {
  summary.approvals.clear();
  summary.allowed.clear();
  Object.assign(summary, { pausedAt: undefined, limited: undefined, doing: undefined });
}

function tellHypotheses(summary: Summary, { hypotheses, round, node }: HypothesisUpdateEvent): void {
  summary.hypotheses = hypotheses;
  summary.frames.push({ round, node, hypotheses });
  for (const { id, probability } of hypotheses) {
    const shares = summary.shares.get(id) ?? [];
    const last = shares.at(-1);
    if (typeof probability !== "number" || (last?.share === probability && last.round === round)) continue;
    summary.shares.set(id, [...shares, { round, node, share: probability }]);
  }
}

type Tone = "good" | "bad" | "warn" | "accent";
const VERDICTS: Readonly<Record<string, readonly [Tone, string]>> = {
  cause: ["good", "Cause found"],
  no_confident_cause: ["warn", "No confident cause"],
};
const STOPPED: typeof VERDICTS = {
  error: ["bad", "The run failed"],
  cancelled: ["warn", "The run was stopped"],
  interrupted: ["warn", "The server stopped during the run"],
};

/** The verdict as a short text, with its color. */
export function verdictOf(
  { decision, imported }: Pick<Summary, "decision" | "imported">,
  status: string | null | undefined,
): { readonly tone: Tone; readonly title: string } {
  if (imported) return { tone: "warn", title: "Imported; nothing in it was checked here" };
  const outcome = VERDICTS[decision?.grounding?.outcome ?? ""];
  if (outcome !== undefined) return { tone: outcome[0], title: outcome[1] };
  const stopped = STOPPED[status ?? ""];
  if (stopped !== undefined) return { tone: stopped[0], title: stopped[1] };
  if (status === "running") {
    return { tone: "accent", title: decision === undefined ? "No cause yet" : "Undecided so far" };
  }
  if (decision === undefined) return { tone: "warn", title: "The run came to no decision" };
  return { tone: "warn", title: "Stated by the moderator; the evidence was not checked" };
}

/** The leading hypothesis is the moderator's choice, or else the likeliest open one. */
export function leadOf(
  { decision, hypotheses }: Pick<Summary, "decision" | "hypotheses">,
): Hypothesis | undefined {
  const grounding = decision?.grounding;
  if (grounding !== undefined) return hypotheses.find(({ id }) => id === grounding.hypothesis_id);
  if (decision !== undefined) {
    const named = decision.leading_hypothesis ?? "";
    return hypotheses.find(({ id }) => named === id || /^[^\w-]/.test(afterStart(named, id) ?? ""));
  }
  return hypotheses.filter(({ state }) => state !== "rejected")
    .toSorted((a, b) => (b.probability ?? -1) - (a.probability ?? -1))[0];
}

function afterStart(text: string, start: string): string | undefined {
  return text.startsWith(start) ? text.slice(start.length) : undefined;
}

const MAX_CAUSE = 260;

/** The cause in one sentence, from the hypothesis with the checked evidence. */
export function causeOf(summary: Pick<Summary, "decision" | "hypotheses">): string {
  return sentenceOf(leadOf(summary)?.text ?? summary.decision?.leading_hypothesis ?? "");
}

/** The first sentence of a hypothesis, without its ID and its machine-readable claim. */
export function sentenceOf(said: string): string {
  const text = said.trim().replace(/^(?:H-?)?\d+:\s*/, "").replace(/^\{\s*component:[^{}]*\}\s*(?=\S)/i, "");
  const end = text.search(/[.!?](?:\s|$)/);
  const sentence = end < 0 ? text : text.slice(0, end + 1);
  return sentence.length <= MAX_CAUSE
    ? sentence
    : `${sentence.slice(0, MAX_CAUSE).replace(/(?<!\s)\s+\S*$/, "")} …`;
}

/** The hypotheses by weight: leading, confirmed, open by probability, rejected. */
export function ranked(summary: Pick<Summary, "decision" | "hypotheses">): readonly Hypothesis[] {
  const lead = leadOf(summary);
  const rank = (each: Hypothesis) =>
    each === lead ? 0 : each.state === "confirmed" ? 1 : each.state === "active" ? 2 : 3;
  return summary.hypotheses.toSorted((a, b) =>
    rank(a) - rank(b) || (b.probability ?? -1) - (a.probability ?? -1)
  );
}

const MAX_TITLE = 90;

/** The first line of a topic, truncated. */
export function titleOf(topic: string | null | undefined): string {
  const line = (topic ?? "").split("\n").map((each) => each.replace(/^[#\s>*-]+/, "").trim())
    .find((each) => each !== "") ?? "";
  return line.length <= MAX_TITLE ? line : `${line.slice(0, MAX_TITLE).replace(/(?<!\s)\s+\S*$/, "")} …`;
}

/** The distinct models of a run. */
export function modelsOf(models: Readonly<Record<string, string>> | null | undefined): string {
  return [...new Set(Object.values(models ?? {}))].filter((each) => each !== "").join(", ");
}

/** The remaining milliseconds of a wait, or `undefined` if its start is unknown. */
export function timeLeft(
  since: string | undefined,
  seconds: number | undefined,
  now: number,
): number | undefined {
  const begun = Date.parse(since ?? "");
  return Number.isNaN(begun) || typeof seconds !== "number"
    ? undefined
    : Math.max(0, begun + seconds * 1000 - now);
}

/** The tokens of a run as text. The text is empty if the provider reports none. */
export function tokensOf(
  total: { readonly total_tokens?: number | undefined; readonly estimated?: boolean } | undefined,
): string {
  const count = total?.total_tokens;
  if (typeof count !== "number" || count <= 0) return "";
  return t(total?.estimated ? "about {count} tokens" : "{count} tokens", {
    count: count.toLocaleString(LANGUAGE),
  });
}

/** The cost of a run. Most runs cost less than a cent. */
export function dollarsOf(usd: number): string {
  return `$${usd.toFixed(4)}`;
}
