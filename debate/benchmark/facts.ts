import { callKey } from "../engine/agents/tool_cache.ts";
import { fieldsOf, isObject } from "../engine/graph/json_objects.ts";
import { citedTools } from "../engine/graph/evidence.ts";
import { findNamed } from "../engine/graph/hypothesis_id.ts";
import { parseDecision } from "../engine/graph/decision.ts";
import type { Decision, Hypothesis } from "../engine/graph/state.ts";
import { type ReadRecord, readRecord } from "../runs/record.ts";

export type RunFacts = ReturnType<typeof toFacts>;

export type FactsOrReason =
  | { readonly kind: "facts"; readonly facts: RunFacts }
  | { readonly kind: "unusable"; readonly reason: string };

export function readFacts(value: unknown): FactsOrReason {
  const record = isObject(value) ? readRecord("", { hypotheses: null, ...value }) : undefined;
  if (record === undefined) return { kind: "unusable", reason: "it is not the record of a run" };
  const { status } = record;
  if (status !== null && status !== "completed") {
    return { kind: "unusable", reason: `the run did not complete: its status is ${status}` };
  }
  const decisions = record.events.filter(({ type }) => type === "moderator_decision");
  const decision = readDecision(decisions.at(-1)?.["decision"]) ?? readDecision(value);
  const candidates = rankCauses(decision, record.hypotheses);
  if (candidates.length === 0) return { kind: "unusable", reason: "the run names no cause" };
  return { kind: "facts", facts: toFacts(record, decision, candidates) };
}

function toFacts(record: ReadRecord, decision: Decision | undefined, candidates: readonly string[]) {
  return {
    candidates,
    /** That of the last decision; `0` if there is none. */
    confidence: decision?.confidence ?? 0,
    ...measureTools(record, decision),
    rounds: record.events.filter(({ type }) => type === "moderator_decision").length,
    tokens: amount(fieldsOf(fieldsOf(record.token_totals).total).total_tokens),
    costUsd: amount(fieldsOf(record.cost_estimate).total_usd),
    durationSeconds: amount(record.duration_seconds),
  };
}

/**
 * The moderator's leading hypothesis, then the confirmed ones, then the active ones by probability, and by age
 * where that is equal. Rejected ones are not candidates, unless the moderator leads with one.
 */
function rankCauses(
  decision: Decision | undefined,
  hypotheses: readonly Hypothesis[],
): readonly string[] {
  const said = decision?.leading_hypothesis ?? "";
  const lead = said === "" ? undefined : findNamed(hypotheses, said);
  const others = hypotheses.filter((hypothesis) => hypothesis !== lead);
  const confirmed = others.filter(({ state }) => state === "confirmed");
  const active = others.filter(({ state }) => state === "active")
    .sort((a, b) => (b.probability ?? -1) - (a.probability ?? -1));
  const own = withoutId(said, lead);
  const first = own === "" ? lead?.text ?? "" : own;
  const ranked = [first, ...[...confirmed, ...active].map(({ text }) => text)];
  return [...new Set(ranked.map((text) => text.trim()).filter((text) => text !== ""))];
}

function withoutId(said: string, lead: Hypothesis | undefined): string {
  const text = said.replace(/^[\s"'*_#[(]*(?:HYPOTHESIS|HIP[OÓ]TESIS)[-\s:]*/iu, "");
  const start = text.replace(/^[\s"'*_#[(]*/, "");
  const id = lead?.id ?? /^H-?\d{1,6}(?![\p{L}\p{N}])/iu.exec(start)?.[0] ?? "";
  const rest = id !== "" && start.toLowerCase().startsWith(id.toLowerCase()) ? start.slice(id.length) : text;
  return rest.replace(/^[\s\])"'*_:,.–—-]+/, "").trim();
}

/** Counts all calls, and the distinct calls that succeeded and whose tool the evidence cites. */
function measureTools({ events, hypotheses }: ReadRecord, decision: Decision | undefined) {
  const calls = events.filter(({ type }) => type === "tool_call");
  const evidence = hypotheses.flatMap(({ supporting_evidence }) => supporting_evidence);
  const cited = new Set([...evidence, ...(decision?.evidence ?? [])].flatMap(citedTools));
  const decided = decision === undefined ? "" : ` ${JSON.stringify(decision).replace(/[^\w]+/g, " ")} `;
  const useful = calls.filter(({ tool_name: tool, error, cached, approval }) => {
    const didRun = error !== true && cached !== true &&
      !["rejected", "timeout", "cached"].includes(String(approval));
    if (!didRun || typeof tool !== "string") return false;
    return cited.has(tool) || (tool.length >= 3 && decided.includes(` ${tool} `));
  });
  const different = new Set(useful.map((call) => callKey(String(call["tool_name"]), fieldsOf(call["args"]))));
  return { toolCalls: calls.length, usefulToolCalls: different.size };
}

/** A decision is read as leniently as the moderator's reply was. */
function readDecision(value: unknown): Decision | undefined {
  if (!isObject(value)) return undefined;
  const { decision = value } = value;
  // A whole record also has a status, but not one of a decision's.
  return isObject(decision) ? parseDecision(JSON.stringify(decision)) : undefined;
}

function amount(value: unknown): number | null {
  return typeof value === "number" && Number.isFinite(value) && value >= 0 ? value : null;
}
