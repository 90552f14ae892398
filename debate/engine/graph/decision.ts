import { cut, linesOf, oneLine } from "./text.ts";
import { findJsonObjects, isObject } from "./json_objects.ts";
import { parseShare } from "./probability.ts";
import {
  type Decision,
  type DecisionGrounding,
  type DecisionStatus,
  type EarlyOutRule,
  type EarlyOutSignal,
  type EvidenceStatus,
  type FlowDirective,
  type Grounding,
  type Hypothesis,
  type RiskLevel,
  STATUSES,
} from "./state.ts";
import { CAPS, groundingOf } from "./evidence.ts";
import { findLeading } from "./hypothesis_id.ts";
import { type Labels, labelsFor, vocabulary } from "./labels.ts";

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

export function parseDecision(text: string): Decision | undefined {
  for (const object of findJsonObjects(text)) {
    const decision = readDecision(object) ?? readDecision(Object.values(object).find(isObject) ?? {});
    if (decision !== undefined) return decision;
  }
  return undefined;
}

/** A decision that decides nothing. */
export const NO_DECISION: Decision = {
  status: "structured_uncertainty",
  confidence: 0,
  leading_hypothesis: "",
  evidence: [],
  missing_evidence: [],
  rejected_hypotheses: [],
  next_step: "",
  recommended_fix: null,
  validation: [],
  stop_reason: null,
  risk_level: "medium",
  flow_directive: null,
};

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
  ...alias("continue", "continue_debate next_round"),
  ...alias("final_diagnosis", "final diagnosis resolved"),
  ...alias("needs_more_data", "more_data need_more_data"),
  ...alias("propose_fix", "fix proposed_fix"),
  ...alias("structured_uncertainty", "uncertain uncertainty inconclusive"),
]);

function alias(status: DecisionStatus, words: string) {
  return words.split(" ").map((word) => [word, status] as const);
}

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

export const NO_EARLY_OUT: EarlyOutSignal = { recommended: false, confidence: 0, rationale: "" };

const MAX_RATIONALE = 1000;
const KEY = /^[\s>*_`-]{0,8}EARLY_OUT_(RECOMMENDED|CONFIDENCE|RATIONALE)[\s*_`]{0,4}:[\s*_`]{0,4}/i;
const OTHER_KEY = /^[\s>*_`-]{0,8}(?:[A-Z][A-Z0-9_]{2,40}\s?:|#{1,6}\s)/;

/**
 * Reads the three lines `EARLY_OUT_RECOMMENDED`, `…_CONFIDENCE`, `…_RATIONALE`; of several, the last one
 * counts.
 */
export function parseEarlyOut(text: string): EarlyOutSignal {
  let { recommended, confidence, rationale } = NO_EARLY_OUT;
  let isRationale = false;
  for (const whole of linesOf(text)) {
    const line = whole.slice(0, MAX_RATIONALE);
    const match = KEY.exec(line);
    const value = match === null ? line : line.slice(match[0].length).replace(/[\s*_`]{1,8}$/, "");
    switch (match?.[1]?.toUpperCase()) {
      case "RECOMMENDED":
        recommended = /^(?:true|yes|1|s[ií])$/i.test(value);
        isRationale = false;
        break;
      case "CONFIDENCE":
        confidence = parseShare(value) ?? 0;
        isRationale = false;
        break;
      case "RATIONALE":
        rationale = value;
        isRationale = true;
        break;
      default:
        isRationale &&= !OTHER_KEY.test(line);
        if (isRationale && rationale.length < MAX_RATIONALE) rationale += ` ${value}`;
    }
  }
  return { recommended, confidence, rationale: cut(oneLine(rationale), MAX_RATIONALE) };
}

/**
 * Whether the debate ends early. The diagnostic agent alone cannot end it: the moderator's confidence of the
 * same round must also reach the threshold, and its leading hypothesis must be fully grounded and not rejected.
 */
export function isEarlyOutConfirmed(
  rule: EarlyOutRule,
  signal: EarlyOutSignal,
  decision: Decision,
  hypotheses: readonly Hypothesis[],
): boolean {
  if (!rule.enabled || !signal.recommended) return false;
  if (!(signal.confidence >= rule.threshold && signal.confidence <= 1)) return false;
  if (decision.confidence < rule.threshold) return false;
  const lead = findLeading(hypotheses, decision.leading_hypothesis);
  return lead !== undefined && lead.state !== "rejected" && groundingOf(lead).level === "full";
}

/** The decision with at most the confidence that the evidence allows, and why. */
export function limitConfidence(
  decision: Decision,
  hypotheses: readonly Hypothesis[],
  language: string,
): Decision & { readonly grounding: DecisionGrounding } {
  const words = wordsFor(language);
  const lead = findLeading(hypotheses, decision.leading_hypothesis);
  const found = lead === undefined || lead.state === "rejected" ? NO_GROUNDING : groundingOf(lead);
  const cap = CAPS[found.level];
  const { confidence } = decision;
  return {
    ...decision,
    confidence: cap === null ? confidence : Math.min(confidence, cap),
    grounding: {
      hypothesis_id: lead?.id ?? null,
      level: found.level,
      stated_confidence: confidence,
      cap,
      reason: lead === undefined
        ? words.noLead
        : lead.state === "rejected"
        ? words.leadRejected(lead.id)
        : words[found.level](lead.id, found),
      outcome: null,
    },
  };
}

/** The decision that ends a debate, with what it amounts to: a number alone is no verdict, a cause is fully grounded. */
export function withOutcome<T extends Decision & { readonly grounding: DecisionGrounding }>(
  decision: T,
  { confidenceThreshold, earlyOutConfirmed }: {
    readonly confidenceThreshold: number;
    readonly earlyOutConfirmed: boolean;
  },
): T {
  const { status, confidence, grounding } = decision;
  const names = status === "final_diagnosis" || status === "propose_fix" || earlyOutConfirmed;
  const isSure = names && grounding.level === "full" && confidence >= confidenceThreshold;
  return { ...decision, grounding: { ...grounding, outcome: isSure ? "cause" : "no_confident_cause" } };
}

const NO_GROUNDING: Grounding = { level: "none", grounded: 0, cited: 0, results: 0, contrary: 0, failed: 0 };

const wordsFor = vocabulary({
  noLead: [
    "the decision names no hypothesis of the debate",
    "la decisión no nombra ninguna hipótesis del debate",
  ],
  leadRejected: [
    (id: string) => `${id} was rejected in the debate`,
    (id: string) => `${id} fue rechazada en el debate`,
  ],
  none: [
    (id: string, { cited, failed }: Grounding) =>
      failed > 0
        ? `no evidence of ${id} counts: ${failed} of ${cited} cited tool calls failed`
        : cited > 0
        ? `no evidence of ${id} counts: what it cites is not in the tool results`
        : `${id} cites no tool result`,
    (id: string, { cited, failed }: Grounding) =>
      failed > 0
        ? `ninguna evidencia de ${id} cuenta: fallaron ${failed} de ${cited} llamadas citadas`
        : cited > 0
        ? `ninguna evidencia de ${id} cuenta: lo que cita no está en los resultados`
        : `${id} no cita ningún resultado de herramientas`,
  ],
  partial: [
    (id: string, { grounded, cited, results }: Grounding) =>
      grounded < cited
        ? `only ${grounded} of ${cited} lines of evidence of ${id} are in the tool results that they cite`
        : results > 1
        ? `the skeptic holds a tool result against ${id} that its evidence does not account for`
        : `all evidence of ${id} comes from a single tool result, a second one is missing`,
    (id: string, { grounded, cited, results }: Grounding) =>
      grounded < cited
        ? `solo ${grounded} de ${cited} líneas de evidencia de ${id} están en los resultados que citan`
        : results > 1
        ? `el escéptico opone a ${id} un resultado que su evidencia no tiene en cuenta`
        : `toda la evidencia de ${id} sale de un solo resultado, falta un segundo`,
  ],
  full: [
    (id: string, { grounded, results }: Grounding) =>
      `all evidence of ${id} is in the tool results that it cites (lines: ${grounded}, results: ${results})`,
    (id: string, { grounded, results }: Grounding) =>
      `toda la evidencia de ${id} está en los resultados que cita (líneas: ${grounded}, resultados: ${results})`,
  ],
});

const explanations = vocabulary({
  grounded: ["counts", "cuenta"],
  uncited: ["does not count: it cites no tool call", "no cuenta: no cita ninguna llamada"],
  unquoted: ["does not count: it quotes nothing from the result", "no cuenta: no copia nada del resultado"],
  no_such_call: ["does not count: there is no such tool call", "no cuenta: esa llamada no existe"],
  failed_call: [
    "does not count: the cited call failed or was not run",
    "no cuenta: la llamada citada falló o no se ejecutó",
  ],
  not_in_result: [
    "does not count: the cited result does not hold the quote",
    "no cuenta: el resultado citado no contiene la cita",
  ],
  too_little: [
    "does not count: the quote is too short, or repeats what the tool was asked",
    "no cuenta: la cita es demasiado corta o repite lo que se preguntó",
  ],
  unchecked: [
    "not checked here: the run was imported",
    "aquí no se ha comprobado: la ejecución fue importada",
  ],
});

export function explainEvidence(status: EvidenceStatus, language: string): string {
  return explanations(language)[status];
}

/** Blocks of a label and what it says, with a blank line between them. */
export function formatFinalText(
  decision: Decision,
  hypotheses: readonly Hypothesis[],
  language: string,
): string {
  const labels = labelsFor(language);
  const lead = findLeading(hypotheses, decision.leading_hypothesis);
  const checked = lead?.evidence.map(({ text, status }) => `${text} (${explainEvidence(status, language)})`);
  const list = (entries: readonly string[]) =>
    (entries.length > 0 ? entries : [labels.none]).map((entry) => `- ${entry}`);
  return [
    `${labels.status}: ${decision.status}`,
    ...formatOutcome(decision.grounding, labels),
    `${labels.confidence}: ${decision.confidence.toFixed(2)}${formatLimit(decision, labels)}`,
    `${labels.risk}: ${decision.risk_level}`,
    [`${labels.leading}:`, decision.leading_hypothesis || labels.notDetermined],
    [`${labels.underDebate}:`, ...list(hypotheses.map(({ id, state, text }) => `${id} [${state}]: ${text}`))],
    [`${labels.evidence}:`, ...list(checked ?? [])],
    [`${labels.statedEvidence}:`, ...list(decision.evidence)],
    [`${labels.missingEvidence}:`, ...list(decision.missing_evidence)],
    [`${labels.rejected}:`, ...list(decision.rejected_hypotheses)],
    [`${labels.nextStep}:`, decision.next_step || labels.notDetermined],
    [`${labels.fix}:`, decision.recommended_fix ?? labels.notRecommended],
    [`${labels.validation}:`, ...list(decision.validation)],
    [`${labels.stopReason}:`, decision.stop_reason ?? labels.notSpecified],
  ].map((block) => typeof block === "string" ? block : block.join("\n")).join("\n\n");
}

function formatOutcome(grounding: DecisionGrounding | undefined, labels: Labels): readonly string[] {
  if (grounding === undefined || grounding.outcome === null) return [];
  return [
    `${labels.outcome}: ${grounding.outcome === "cause" ? labels.causeFound : labels.noConfidentCause}`,
  ];
}

function formatLimit({ confidence, grounding }: Decision, labels: Labels): string {
  if (grounding === undefined) return "";
  const { stated_confidence: stated, reason } = grounding;
  return stated > confidence ? ` (${stated.toFixed(2)} ${labels.stated}; ${reason})` : ` (${reason})`;
}
