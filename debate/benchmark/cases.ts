import { AppError } from "@gateway/shared/errors";
import { parseStandardJson } from "@gateway/shared/json";
import * as z from "@zod/zod";
import { fieldsOf, isObject, parseJson } from "../engine/graph/text.ts";
import { callKey } from "../engine/agents/debate.ts";
import { citedTools } from "../engine/graph/evidence.ts";
import { findNamed } from "../engine/graph/hypothesis_id.ts";
import { parseDecision } from "../engine/graph/decision.ts";
import type { Decision, Hypothesis } from "../engine/graph/state.ts";
import { amountsOf, lastDecision, type ReadRecord, readRecord } from "../runs/record.ts";

const cause = z.string("must be a text").refine((text) => text.trim() !== "", "must not be empty");

const caseSchema = z.looseObject({
  id: z.union([z.string().min(1, "must not be empty"), z.int().transform(String)], "must be a text"),
  ground_truth: z.union(
    [cause.transform((text) => [text]), z.array(cause).min(1)],
    "must be a text, or a list of texts, that is not empty",
  ),
  run: z.unknown().optional(),
  run_file: z.string("must be a path").min(1, "must be a path").optional(),
});

type BenchmarkCase = z.infer<typeof caseSchema>;

export function parseCases(text: string, source: string): readonly BenchmarkCase[] {
  const cases: BenchmarkCase[] = [];
  const problems = parseArray(text, source).flatMap((value, index) => {
    const { data, error } = caseSchema.safeParse(value);
    const problem = data === undefined ? describe(error) : problemOf(data, cases);
    if (data !== undefined) cases.push(data);
    return problem === undefined ? [] : [`case ${index + 1}: ${problem}`];
  });
  if (problems.length > 0) throw invalid(source, problems.slice(0, MAX_PROBLEMS).join("; "));
  return cases;
}

const MAX_PROBLEMS = 10;

function parseArray(text: string, source: string): readonly unknown[] {
  let value: unknown;
  try {
    value = parseStandardJson(text);
  } catch (cause) {
    const where = cause instanceof SyntaxError ? `: ${cause.message}` : "";
    throw invalid(source, `not JSON${where}`);
  }
  if (!Array.isArray(value)) throw invalid(source, "expected a JSON array of cases");
  if (value.length === 0) throw invalid(source, "it has no cases");
  return value;
}

function describe(error: z.ZodError | undefined): string {
  const [issue] = error?.issues ?? [];
  const key = issue?.path.join(".") ?? "";
  return key === "" ? "expected an object" : `${key} ${issue?.message}`;
}

function problemOf(
  { id, run, run_file }: BenchmarkCase,
  before: readonly BenchmarkCase[],
): string | undefined {
  const hasRun = run !== undefined && run !== null;
  if (hasRun === (run_file !== undefined)) {
    return `needs either "run" or "run_file"${hasRun ? ", not both" : ""}`;
  }
  return before.some((each) => each.id === id) ? `id "${id}" is given twice` : undefined;
}

/** Adds the record to a case. An unreadable file counts as a failed case and does not stop the benchmark. */
export async function loadRun(
  { id, ground_truth: truths, run, run_file: path }: BenchmarkCase,
  readText: (path: string) => Promise<string>,
): Promise<JudgedCase> {
  if (path === undefined) return { id, truths, run: readFacts(run) };
  const text = await readText(path).catch(() => undefined);
  if (text === undefined) return { id, truths, run: `${JSON.stringify(path)} cannot be read` };
  const record = parseJson(text);
  return {
    id,
    truths,
    run: record === undefined ? `${JSON.stringify(path)} is not JSON` : readFacts(record),
  };
}

function invalid(source: string, reason: string): AppError {
  return new AppError("invalid_config", `Cannot load benchmark cases ${JSON.stringify(source)}: ${reason}`);
}

export type RunFacts = ReturnType<typeof toFacts>;

export interface JudgedCase {
  readonly id: string;
  readonly truths: readonly string[];
  /** The facts of the run, or the reason why there are none. */
  readonly run: RunFacts | string;
}

/** Reads the facts of a record, or returns the reason why it has none. */
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
    /** The confidence of the last decision; 0 without a decision. */
    confidence: decision?.confidence ?? 0,
    ...measureTools(record, decision),
    ...{ tokens, cost_usd: cost, rounds },
    duration_seconds: seconds !== null && seconds >= 0 ? seconds : null,
  };
}

/**
 * Ranks the causes: the moderator's leading hypothesis, then confirmed ones, then active ones by probability and age.
 * Rejected hypotheses are not candidates, unless the moderator leads with one.
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

/** Counts all calls, and the distinct successful calls whose tool the evidence cites. */
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

/** Reads a decision as leniently as the moderator's reply. */
function readDecision(value: unknown): Decision | undefined {
  if (!isObject(value)) return undefined;
  const { decision = value } = value;
  // A whole record also has a status, but with other values.
  return isObject(decision) ? parseDecision(JSON.stringify(decision)) : undefined;
}
