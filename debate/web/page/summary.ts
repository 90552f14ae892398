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

/** The state of a run after its events so far. */
export interface Summary {
  round: number;
  maxRounds?: number;
  hypotheses: readonly Hypothesis[];
  /** The changes of the hypotheses. */
  readonly frames: HypothesisUpdateEvent[];
  decision?: Decision;
  readonly calls: Map<string, ToolCallEvent>;
  /** Pending calls by ID, with the time of their request and the text that the agent wrote with the call. */
  readonly approvals: Map<string, PendingCall>;
  /** The calls that are approved for the whole run, by the ID of the first. */
  readonly allowed: Map<string, PendingCall>;
  /** The current pause of a model because of a rate limit. `tries` counts the pauses of this model call. */
  limited?:
    | { readonly timestamp?: string | undefined; readonly seconds: number; readonly tries: number }
    | undefined;
  /** The time of the request for a comment. */
  pausedAt?: string | undefined;
  /** The agent that speaks, and the tool that runs for it. */
  doing?: { readonly node: string; readonly tool?: string; readonly since: string | undefined } | undefined;
  /** The streamed text of the current turn. */
  live?: { readonly role: string; readonly text: string } | undefined;
  tokens?: number;
  problem: string;
  /** The run was imported and not checked here. */
  readonly imported: boolean;
}

/** Starts an empty summary. The page shows it before the conversation. */
export function beginSummary(imported = false): Summary {
  return {
    round: 0,
    hypotheses: [],
    frames: [],
    calls: new Map(),
    approvals: new Map(),
    allowed: new Map(),
    problem: "",
    imported,
  };
}

/**
 * Adds an event to the summary. Records can be edited or imported, and a server can be newer than the page: a broken
 * event hides no other one.
 */
export function tell(summary: Summary, event: TimedEvent): void {
  try {
    add(summary, event);
  } catch {
    // The conversation shows a line for each event that it cannot show.
  }
}

function add(summary: Summary, event: TimedEvent): void {
  if ("total_tokens" in event && typeof event.total_tokens === "number") summary.tokens = event.total_tokens;
  switch (event.type) {
    case "run_started":
      summary.round = event.round;
      summary.maxRounds = event.max_rounds;
      break;
    case "agent_turn_started":
      speak(summary, event.agent_node, event);
      summary.live = { role: event.agent_role, text: "" };
      break;
    case "agent_delta": {
      if (summary.doing?.node !== event.agent_node) speak(summary, event.agent_node, event);
      const before = summary.live?.role === event.agent_role ? summary.live.text : "";
      summary.live = { role: event.agent_role, text: before + event.delta };
      summary.limited = undefined;
      break;
    }
    // A turn ends with a stored event that has its whole text.
    case "agent_reasoning":
      summary.live = undefined;
      summary.limited = undefined;
      break;
    case "agent_completed":
    case "agent_skipped":
      beSilent(summary);
      // The moderator sends no event when it begins.
      if (event.node === "diagnostic_rebuttal_agent") speak(summary, "moderator_agent", event);
      break;
    case "tool_approval_request":
      summary.approvals.set(event.call_id, event);
      // The agent waits for the operator.
      beSilent(summary);
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
      beSilent(summary);
      speak(summary, event.agent_node, event, event.tool_name);
      break;
    case "tool_call":
      summary.calls.set(event.call_id, event);
      speak(summary, event.agent_node, event);
      break;
    case "hypothesis_update":
      summary.hypotheses = event.hypotheses;
      summary.frames.push(event);
      break;
    case "moderator_decision":
      summary.decision = event.decision;
      summary.round = event.round;
      beSilent(summary);
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

function beSilent(summary: Summary): void {
  summary.doing = undefined;
  summary.live = undefined;
  summary.limited = undefined;
}

/** Removes the pending requests of a finished run. */
export function endSummary(summary: Summary): void {
  summary.approvals.clear();
  summary.allowed.clear();
  summary.pausedAt = undefined;
  beSilent(summary);
}

interface Verdict {
  readonly tone: "good" | "bad" | "warn" | "accent";
  readonly title: string;
}

/** By the outcome of the decision, or else by the state of the run. */
const VERDICTS: Readonly<Record<string, Verdict>> = {
  cause: { tone: "good", title: "Cause found" },
  no_confident_cause: { tone: "warn", title: "No confident cause" },
  error: { tone: "bad", title: "The run failed" },
  cancelled: { tone: "warn", title: "The run was stopped" },
  interrupted: { tone: "warn", title: "The server stopped during the run" },
};

/** The verdict as a short text, with its color. */
export function verdictOf({ decision, imported }: Summary, status: string | null | undefined): Verdict {
  if (imported) return { tone: "warn", title: "Imported; nothing in it was checked here" };
  const known = VERDICTS[decision?.grounding?.outcome ?? ""] ?? VERDICTS[status ?? ""];
  if (known !== undefined) return known;
  if (status === "running") {
    return { tone: "accent", title: decision === undefined ? "No cause yet" : "Undecided so far" };
  }
  if (decision === undefined) return { tone: "warn", title: "The run came to no decision" };
  return { tone: "warn", title: "Stated by the moderator; the evidence was not checked" };
}

const byProbability = (a: Hypothesis, b: Hypothesis) => (b.probability ?? -1) - (a.probability ?? -1);

/** The leading hypothesis is the moderator's choice, or else the likeliest open one. */
export function leadOf({ decision, hypotheses }: Summary): Hypothesis | undefined {
  if (decision === undefined) {
    return hypotheses.filter(({ state }) => state !== "rejected").toSorted(byProbability)[0];
  }
  const { grounding, leading_hypothesis } = decision;
  const named = grounding === undefined ? leading_hypothesis?.split(/[^\w-]/)[0] : grounding.hypothesis_id;
  return hypotheses.find(({ id }) => id === named);
}

/** The cause in one sentence, from the hypothesis with the checked evidence. */
export function causeOf(summary: Summary): string {
  return sentenceOf(leadOf(summary)?.text ?? summary.decision?.leading_hypothesis ?? "");
}

/** The first sentence of a hypothesis, without its ID and its machine-readable claim. */
export function sentenceOf(said: string): string {
  const text = said.trim().replace(/^(?:H-?)?\d+:\s*/, "").replace(/^\{\s*component:[^{}]*\}\s*(?=\S)/i, "");
  const end = text.search(/[.!?](?:\s|$)/);
  return shorten(end < 0 ? text : text.slice(0, end + 1), 260);
}

function shorten(text: string, most: number): string {
  return text.length <= most ? text : `${text.slice(0, most).replace(/(?<!\s)\s+\S*$/, "")} …`;
}

/** The hypotheses by weight: leading, confirmed, open by probability, rejected. */
export function ranked(summary: Summary): readonly Hypothesis[] {
  const lead = leadOf(summary);
  const rank = (each: Hypothesis) => each === lead ? 0 : ["confirmed", "active"].indexOf(each.state) + 1 || 3;
  return summary.hypotheses.toSorted((a, b) => rank(a) - rank(b) || byProbability(a, b));
}

/** The first line of a topic, truncated. */
export function titleOf(topic: string | null | undefined): string {
  const lines = (topic ?? "").split("\n").map((each) => each.replace(/^[#\s>*-]+/, "").trim());
  return shorten(lines.find((each) => each !== "") ?? "", 90);
}

/** The distinct models of a run. */
export function modelsOf(models: Readonly<Record<string, string>> | null | undefined): string {
  return [...new Set(Object.values(models ?? {}))].filter((each) => each !== "").join(", ");
}

/**
 * Compares the IDs of events, which are `12`, or `12.3` for events that are not stored. After a reconnect, the server
 * can send an event again.
 */
export function isLater(id: string, than: string): boolean {
  const [stored = 0, part = 0] = id.split(".").map(Number);
  const [storedBefore = 0, partBefore = 0] = than.split(".").map(Number);
  return stored > storedBefore || (stored === storedBefore && part > partBefore);
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
