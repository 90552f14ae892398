import { cut } from "./text.ts";
import { findJsonObjects, isObject } from "./json_objects.ts";
import { parseShare } from "./probability.ts";
import { type Decision, type DecisionStatus, type FlowDirective, type RiskLevel, STATUSES } from "./state.ts";

const MAX_TEXT = 4000;
const MAX_ENTRIES = 40;

const string = { type: "string" };
const strings = { type: "array", items: string };
const optionalString = { type: ["string", "null"] };

/** JSON schema of a decision in the strict form that structured output requires: every key and no others. */
export const DECISION_SCHEMA: Readonly<Record<string, unknown>> = strict({
  status: { type: "string", enum: STATUSES },
  confidence: { type: "number", minimum: 0, maximum: 1 },
  leading_hypothesis: string,
  evidence: strings,
  missing_evidence: strings,
  rejected_hypotheses: strings,
  next_step: string,
  recommended_fix: optionalString,
  validation: strings,
  stop_reason: optionalString,
  risk_level: { type: "string", enum: ["low", "medium", "high"] },
  flow_directive: {
    anyOf: [
      { type: "null" },
      strict({ skip_skeptic: { type: "boolean" }, skip_rebuttal: { type: "boolean" }, rationale: string }),
    ],
  },
});

function strict(properties: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  return { type: "object", properties, required: Object.keys(properties), additionalProperties: false };
}

/** Reads a decision; `undefined` if the text does not contain one with a status. */
export function parseDecision(text: string): Decision | undefined {
  for (const object of findJsonObjects(text)) {
    const decision = readDecision(object) ?? readDecision(unwrap(object));
    if (decision !== undefined) return decision;
  }
  return undefined;
}

export function unusableDecision(words: {
  readonly missing: string;
  readonly nextStep: string;
  readonly stopReason: string;
}): Decision {
  return {
    status: "structured_uncertainty",
    confidence: 0,
    leading_hypothesis: "",
    evidence: [],
    missing_evidence: [words.missing],
    rejected_hypotheses: [],
    next_step: words.nextStep,
    recommended_fix: null,
    validation: [],
    stop_reason: words.stopReason,
    risk_level: "medium",
    flow_directive: null,
  };
}

function unwrap(object: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const inner = Object.values(object).find(isObject);
  return inner ?? {};
}

function readDecision(object: Readonly<Record<string, unknown>>): Decision | undefined {
  const get = (key: string) => Object.hasOwn(object, key) ? object[key] : undefined;
  const status = readStatus(get("status"));
  if (status === undefined) return undefined;
  return {
    status,
    confidence: readConfidence(get("confidence")),
    leading_hypothesis: readText(get("leading_hypothesis")),
    evidence: readTexts(get("evidence")),
    missing_evidence: readTexts(get("missing_evidence")),
    rejected_hypotheses: readTexts(get("rejected_hypotheses")),
    next_step: readText(get("next_step")),
    recommended_fix: readOptional(get("recommended_fix")),
    validation: readTexts(get("validation")),
    stop_reason: readOptional(get("stop_reason")),
    risk_level: readRisk(get("risk_level") ?? get("risk")),
    flow_directive: readDirective(get("flow_directive")),
  };
}

const STATUS_WORDS: ReadonlyMap<string, DecisionStatus> = new Map([
  ...STATUSES.map((status) => [status, status] as const),
  ["continue_debate", "continue"],
  ["next_round", "continue"],
  ["final", "final_diagnosis"],
  ["diagnosis", "final_diagnosis"],
  ["resolved", "final_diagnosis"],
  ["more_data", "needs_more_data"],
  ["need_more_data", "needs_more_data"],
  ["fix", "propose_fix"],
  ["proposed_fix", "propose_fix"],
  ["uncertain", "structured_uncertainty"],
  ["uncertainty", "structured_uncertainty"],
  ["inconclusive", "structured_uncertainty"],
]);

function readStatus(value: unknown): DecisionStatus | undefined {
  if (typeof value !== "string" || value.length > 60) return undefined;
  return STATUS_WORDS.get(value.trim().toLowerCase().replace(/[\s-]+/g, "_"));
}

/** A number from 0 to 1; anything that is not clearly a share counts as 0. */
function readConfidence(value: unknown): number {
  const written = typeof value === "string" ? parseShare(value.slice(0, 30)) : value;
  if (typeof written !== "number" || !(written >= 0)) return 0;
  if (written <= 1) return written;
  return written >= 2 && written <= 100 ? written / 100 : 0;
}

function readRisk(value: unknown): RiskLevel {
  const word = typeof value === "string" ? value.slice(0, 30).trim().toLowerCase() : "";
  if (word === "low" || word === "high") return word;
  return word === "critical" || word === "severe" ? "high" : "medium";
}

function readText(value: unknown): string {
  if (typeof value === "string") return cut(value.trim().toWellFormed(), MAX_TEXT);
  if (typeof value === "number" || typeof value === "boolean") return String(value);
  if (!isObject(value)) return "";
  return cut(
    Object.values(value).map((part) => typeof part === "object" ? "" : readText(part)).join(": "),
    MAX_TEXT,
  );
}

function readTexts(value: unknown): readonly string[] {
  const entries = Array.isArray(value) ? value.slice(0, MAX_ENTRIES) : [value];
  return entries.map(readText).filter((entry) => entry !== "");
}

function readOptional(value: unknown): string | null {
  const text = readText(value);
  return text === "" || /^(?:null|none|n\/a|ninguno|ninguna)\.?$/i.test(text) ? null : text;
}

function readDirective(value: unknown): FlowDirective | null {
  if (!isObject(value)) return null;
  const isTrue = (key: string) => {
    const member = Object.hasOwn(value, key) ? value[key] : undefined;
    return member === true || member === 1 ||
      (typeof member === "string" && /^\s*(?:true|yes|1)\s*$/i.test(member));
  };
  return {
    skip_skeptic: isTrue("skip_skeptic"),
    skip_rebuttal: isTrue("skip_rebuttal"),
    rationale: readText(Object.hasOwn(value, "rationale") ? value["rationale"] : ""),
  };
}
