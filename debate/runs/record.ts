import { cutText, shortenText } from "@gateway/shared/text";
import * as z from "@zod/zod";
import type { RedactionCounts } from "../context/redact_context.ts";
import { MAX_CHART_LABEL, MAX_CHART_MS, MAX_CHART_POINTS, MAX_CHART_SERIES } from "../engine/events.ts";
import { fieldsOf, isObject, numberOf, parseJson, textOf } from "../engine/graph/text.ts";
import { type Hypothesis, hypothesisSchema } from "../engine/graph/state.ts";
import { type ByRole, type DebateSetup, RUN_MODES, type RunMode } from "../engine/ports.ts";
import { forDebaters } from "../settings/config.ts";
import { DECISION_SCHEMA } from "../engine/graph/decision.ts";
import { labelLanguage } from "../engine/graph/labels.ts";

export const RUN_STATUSES = ["running", "completed", "cancelled", "error", "interrupted"] as const;

/** The status of a run. `interrupted`: the server stopped during the run. */
type RunStatus = (typeof RUN_STATUSES)[number];

/** The unchanged fields of an event. */
type Fields = Readonly<Record<string, unknown>>;

/** The models of the three debaters, by ID. */
export type RunModels = ByRole<string>;

export type RunEfforts = DebateSetup["efforts"];

/** A stored event of any version. Only its type is certain. */
export interface StoredEvent {
  readonly type: string;
  readonly [field: string]: unknown;
}

interface Conclusion {
  readonly cause: string;
  readonly confidence: number;
  /** `null` if the evidence was not checked or the run has no final decision. */
  readonly outcome: "cause" | "no_confident_cause" | null;
}

/** The part of a record that a list needs. It is stored at the beginning of the file. */
export interface RunHeader {
  readonly run_id: string;
  readonly status: RunStatus;
  /** Absent while the run is in progress, and without a decision. */
  readonly conclusion?: Conclusion;
  /** The reason of a failure. */
  readonly problem?: string;
  /** Set by the operator, or by an alert. Without a title, lists show the beginning of the topic. */
  readonly title?: string;
  readonly topic: string;
  /** Start time; ISO 8601, UTC. */
  readonly timestamp: string;
  readonly models: RunModels;
  readonly reasoning_effort: RunEfforts;
  readonly template: string;
  readonly language: string;
  /** Absent for a debate. */
  readonly mode?: RunMode;
  /** The run that this one resumes. */
  readonly parent_run_id: string | null;
  readonly parent_topic?: string;
  readonly finished_at?: string;
  readonly duration_seconds?: number;
  /** Tokens by node and in total. */
  readonly token_totals?: Fields;
  /** Cost by node and in total. */
  readonly cost_estimate?: Fields | null;
  /** The run was imported, so this server has not checked it. */
  readonly imported?: true;
  /** Time of the import. Imports of older versions lack it. */
  readonly imported_at?: string;
  readonly schema_version: 1;
}

/** A complete record, with its keys in the order of the file. */
export interface RunRecord extends RunHeader {
  /** Redacted, unless the operator turned redaction off. */
  readonly context: string;
  /** The number of masked secrets by class. */
  readonly context_redactions: RedactionCounts;
  /** Omissions from the context, with their reasons. */
  readonly context_notes: readonly string[];
  readonly final_result: string | null;
  readonly decision: Fields | null;
  readonly hypotheses: readonly Hypothesis[];
  /** The truncated texts of each round, and the decision. */
  readonly round_log: readonly Fields[];
  /** All tool calls with their results. */
  readonly tool_calls_log: readonly Fields[];
  /** All events except ephemeral ones. */
  readonly events: readonly StoredEvent[];
}

/** The conclusion of a decision; `undefined` without a decision. */
export function conclusionOf(
  decision: Fields | null,
  hypotheses: readonly Hypothesis[],
): Conclusion | undefined {
  if (decision === null) return undefined;
  const { grounding, confidence, leading_hypothesis } = decision;
  const { hypothesis_id, outcome }: Fields = isObject(grounding) ? grounding : {};
  const lead = hypotheses.find(({ id }) => id === hypothesis_id);
  const said = typeof leading_hypothesis === "string" ? leading_hypothesis : "";
  return {
    cause: cutText(lead === undefined ? said : `${lead.id}: ${lead.text}`, MAX_CAUSE),
    confidence: typeof confidence === "number" ? confidence : 0,
    outcome: outcome === "cause" || outcome === "no_confident_cause" ? outcome : null,
  };
}

/** The maximum length of a cause and of a problem, in UTF-16 units. */
export const MAX_CAUSE = 300;

const text = z.string().nullable().catch(null);
const object = z.record(z.string(), z.unknown()).nullable().catch(null);
const byRole = z.object(forDebaters(() => z.string().exactOptional().catch("")));

const LIST_FIELDS = {
  title: text,
  topic: text,
  timestamp: text,
  finished_at: text,
  duration_seconds: z.number().nullable().catch(null),
  status: z.enum(RUN_STATUSES).nullable().catch(null),
  models: byRole.nullable().catch(null),
  template: text,
  language: text,
  parent_run_id: text,
  token_totals: object,
  cost_estimate: object,
  conclusion: z.object({
    outcome: z.enum(["cause", "no_confident_cause"]).nullable(),
    confidence: z.number(),
    cause: z.string(),
  }).nullable().catch(null),
  problem: text,
  imported: z.boolean().catch(false),
  imported_at: text,
};

const listSchema = z.object(LIST_FIELDS);
export const listItemSchema = listSchema.extend({ run_id: z.string() });

/** An entry of the list; `null` for fields that the record lacks. */
export type RunListItem = Readonly<z.infer<typeof listItemSchema>>;

const recordSchema = z.object({
  ...LIST_FIELDS,
  reasoning_effort: byRole.catch({}),
  mode: z.enum(RUN_MODES).nullable().catch(null),
  parent_topic: text,
  context: z.string().catch(""),
  hypotheses: z.unknown().optional(),
  events: z.array(z.unknown()).catch([]),
});

/** A record from a file, without its malformed fields. */
export type ReadRecord = Readonly<Omit<z.infer<typeof recordSchema>, "hypotheses" | "events">> & {
  readonly run_id: string;
  readonly hypotheses: readonly Hypothesis[];
  readonly events: readonly StoredEvent[];
};

/** A stored chart; `undefined` if the page could not draw it. */
const chartSchema = z.object({
  series: z.array(z.object({
    label: z.string().max(MAX_CHART_LABEL),
    points: z.array(z.tuple([z.number().min(-MAX_CHART_MS).max(MAX_CHART_MS), z.number()])).max(
      MAX_CHART_POINTS,
    ),
  })).max(MAX_CHART_SERIES),
}).optional().catch(undefined);

const eventSchema = z.looseObject({ type: z.string() }).transform((event): StoredEvent => {
  if (event.chart === undefined) return event;
  const { chart, ...rest } = event;
  const drawn = chartSchema.parse(chart);
  return drawn === undefined ? rest : { ...rest, chart: drawn };
});

const facts = z.record(z.string(), z.unknown());
const decision = z.looseObject({}).meta({ ...DECISION_SCHEMA, required: [], additionalProperties: true })
  .nullable();

/** The published form of a record: the members that an import reads, and those that it computes from the events. */
export const RUN_SCHEMA = recordSchema.extend({
  run_id: z.string(),
  schema_version: z.literal(1),
  context_redactions: z.record(z.string(), z.int()).describe("number of masked secrets by class"),
  context_notes: z.array(z.string()).describe("omissions from the context, with their reasons"),
  final_result: z.string().nullable(),
  decision,
  hypotheses: z.array(hypothesisSchema),
  round_log: z.array(z.object({
    round: z.int(),
    ...{ diagnostic: z.string(), skeptic: z.string(), rebuttal: z.string() },
    moderator: decision,
  })),
  tool_calls_log: z.array(z.object({
    ...{ call_id: z.string(), agent: z.string(), tool_name: z.string(), args: facts, result: z.string() },
    ...{ error: z.boolean(), approval: z.string() },
  })),
  events: z.array(eventSchema).describe("as in the stream of events, each with its timestamp"),
}).meta({ title: "Run", description: "The stored record of a run" });

/** The list entry for a header; `undefined` if the header is not an object. The ID comes from the file name. */
export function toListItem(runId: string, header: unknown): RunListItem | undefined {
  const result = listSchema.safeParse(header);
  if (!result.success) return undefined;
  const { title, topic, problem, conclusion: told, imported } = result.data;
  const conclusion = told !== null && imported ? withoutOutcome(told) : told;
  return {
    run_id: runId,
    ...result.data,
    title: title === null ? null : shortenText(title, MAX_LISTED),
    topic: topic === null ? null : shortenText(topic, MAX_LISTED),
    problem: problem === null ? null : shortenText(problem, MAX_LISTED),
    conclusion: conclusion === null
      ? null
      : { ...conclusion, cause: shortenText(conclusion.cause, MAX_LISTED) },
  };
}

const MAX_LISTED = 500;

/** Reads a record; `undefined` if it is not an object. Malformed hypotheses and events are omitted. */
export function readRecord(runId: string, value: unknown): ReadRecord | undefined {
  if (!isObject(value)) return undefined;
  const result = recordSchema.safeParse(withoutForeignClaims(value));
  if (!result.success) return undefined;
  const events = readEvents(result.data.events);
  const listed = Array.isArray(result.data.hypotheses) ? result.data.hypotheses : lastHypotheses(events);
  return { ...result.data, run_id: runId, events, hypotheses: readHypotheses(listed) };
}

export function readHypotheses(values: readonly unknown[]): readonly Hypothesis[] {
  return values.flatMap((value) => hypothesisSchema.safeParse(value).data ?? []);
}

export function readEvents(values: readonly unknown[]): readonly StoredEvent[] {
  return values.flatMap((value) => eventSchema.safeParse(value).data ?? []);
}

export function lastHypotheses(events: readonly StoredEvent[]): readonly unknown[] {
  const table = events.findLast(({ type }) => type === "hypothesis_update")?.hypotheses;
  return Array.isArray(table) ? table : [];
}

export function lastDecision(events: readonly StoredEvent[]): Fields | null {
  const decision = events.findLast(({ type }) => type === "moderator_decision")?.decision;
  return decision === undefined || decision === null ? null : fieldsOf(decision);
}

export function amountsOf(
  { events, token_totals, cost_estimate }: Pick<ReadRecord, "events" | "token_totals" | "cost_estimate">,
) {
  return {
    tokens: numberOf(fieldsOf(fieldsOf(token_totals).total).total_tokens),
    cost: numberOf(fieldsOf(cost_estimate).total_usd),
    rounds: events.filter(({ type }) => type === "moderator_decision").length,
  };
}

/** The text of a record's file, indented by two so that {@linkcode parseHead} can read it. */
export function formatRecord(record: object): string {
  return `${JSON.stringify(record, null, 2)}\n`;
}

const AFTER_HEADER = '\n  "context": ';

/**
 * Reads the header from the beginning of a record's file. The first line with the key `context` at this indentation ends
 * the header: strings contain no line feeds, and deeper keys are indented more.
 */
export function parseHead(head: string): unknown {
  const end = head.indexOf(AFTER_HEADER);
  if (end < 0) return undefined;
  return parseJson(`${head.slice(0, end).replace(/,\s*$/, "")}}`);
}

/** Orders runs from newest to oldest. Runs of the same time are ordered by ID. */
export function byTime(a: RunListItem, b: RunListItem): number {
  const [left, right] = [Date.parse(a.timestamp ?? "") || 0, Date.parse(b.timestamp ?? "") || 0];
  return right - left || (a.run_id < b.run_id ? -1 : 1);
}

const IMPORTED = {
  en: "the run was imported, and this server has not checked it",
  es: "la ejecución es importada y este servidor no la ha comprobado",
};

/**
 * Removes the claims from an imported record that only this server can check: counting evidence and confirmed
 * hypotheses. Other records stay unchanged.
 */
export function withoutForeignClaims<T extends Fields>(record: T): T {
  if (record.imported !== true) return record;
  const reason = IMPORTED[labelLanguage(textOf(record.language))];
  const { conclusion, decision, hypotheses, events, final_result: final } = record;
  return {
    ...record,
    ...(isObject(conclusion) && { conclusion: withoutOutcome(conclusion) }),
    ...(typeof final === "string" && { final_result: withReason(final, reason) }),
    ...(isObject(decision) && { decision: undecided(decision, reason) }),
    ...(Array.isArray(hypotheses) && { hypotheses: hypotheses.map(unchecked) }),
    ...(Array.isArray(events) && { events: events.map((event) => unclaimed(event, reason)) }),
  };
}

function withoutOutcome<T extends Fields>(conclusion: T): T & { outcome: null; confidence: number } {
  return { ...conclusion, outcome: null, confidence: share(conclusion.confidence) };
}

function unclaimed(event: unknown, reason: string): unknown {
  if (!isObject(event)) return event;
  if (event.type === "moderator_decision") {
    return { ...event, decision: undecided(fieldsOf(event.decision), reason) };
  }
  if (event.type === "final_result" && typeof event.content === "string") {
    return { ...event, content: withReason(event.content, reason) };
  }
  if (event.type === "hypothesis_update" && Array.isArray(event.hypotheses)) {
    return { ...event, hypotheses: event.hypotheses.map(unchecked) };
  }
  return event;
}

function undecided(decision: Fields, reason: string): Fields {
  const confidence = share(decision.confidence);
  const { hypothesis_id } = fieldsOf(decision.grounding);
  const grounding = {
    hypothesis_id: textOf(hypothesis_id) || null,
    level: "none",
    stated_confidence: confidence,
    cap: null,
    reason,
    outcome: null,
  };
  return { ...decision, confidence, grounding };
}

function unchecked(hypothesis: unknown): unknown {
  if (!isObject(hypothesis)) return hypothesis;
  const { state, evidence, reviews } = hypothesis;
  const lines = (value: unknown) =>
    Array.isArray(value) ? value.map((line) => isObject(line) ? { ...line, status: "unchecked" } : line) : [];
  return {
    ...hypothesis,
    ...(state === "confirmed" && { state: "active" }),
    ...(Array.isArray(evidence) && { evidence: lines(evidence) }),
    ...(Array.isArray(reviews) && {
      reviews: reviews.map((review) =>
        isObject(review) ? { ...review, new_evidence: false, evidence: lines(review.evidence) } : review
      ),
    }),
  };
}

function withReason(text: string, reason: string): string {
  return text.startsWith(`(${reason})`) ? text : `(${reason})\n\n${text}`;
}

function share(value: unknown): number {
  return Math.min(1, Math.max(0, numberOf(value) ?? 0));
}
