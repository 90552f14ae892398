import { callKey } from "../engine/agents/tool_cache.ts";
import { fieldsOf, isObject } from "../engine/graph/json_objects.ts";
import { citedTools } from "../engine/graph/evidence.ts";
import { findNamed } from "../engine/graph/hypothesis_id.ts";
import { parseDecision } from "../engine/graph/decision.ts";
import type { Decision, Hypothesis } from "../engine/graph/state.ts";
import { amountsOf, lastDecision, type ReadRecord, readRecord } from "../runs/record.ts";

export type RunFacts = ReturnType<typeof toFacts>;

/** Reads the facts of a record; a text says why there are none. */
export function readFacts(value: unknown): RunFacts | string {
  const record = isObject(value) ? readRecord("", { hypotheses: null, ...value }) : undefined;
  if (record === undefined) return "it is not the record of a run";
  const { status } = record;
  if (status !== null && status !== "completed") return `the run did not complete: its status is ${status}`;
  const decision = readDecision(lastDecision(record.events)) ?? readDecision(value);
  const candidates = rankCauses(decision, record.hypotheses);
  return candidates.length === 0 ? "the run names no cause" : toFacts(record, decision, candidates);
}

function toFacts(record: ReadRecord, decision: Decision | undefined, candidates: readonly string[]) {
  const { tokens = null, cost = null, rounds } = amountsOf(record);
  const { duration_seconds: seconds } = record;
  return {
    candidates,
    /** That of the last decision; `0` if there is none. */
    confidence: decision?.confidence ?? 0,
    ...measureTools(record, decision),
    ...{ tokens, cost_usd: cost, rounds },
    duration_seconds: seconds !== null && seconds >= 0 ? seconds : null,
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
  return { tool_calls: calls.length, useful_tool_calls: different.size };
}

/** A decision is read as leniently as the moderator's reply was. */
function readDecision(value: unknown): Decision | undefined {
  if (!isObject(value)) return undefined;
  const { decision = value } = value;
  // A whole record also has a status, but not one of a decision's.
  return isObject(decision) ? parseDecision(JSON.stringify(decision)) : undefined;
}
