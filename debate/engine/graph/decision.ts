import { cutText } from "@gateway/shared/text";
import { findJsonObjects, isObject, linesOf, oneLine } from "./text.ts";
import { parseShare } from "./probability.ts";
import {
  type DebateTask,
  type Decision,
  type DecisionGrounding,
  type EarlyOutSignal,
  type EvidenceStatus,
  type Grounding,
  type Hypothesis,
  STATUSES,
} from "./state.ts";
import { CAPS, groundingOf } from "./evidence.ts";
import { findLeading } from "./hypothesis_id.ts";
import { labelsFor, vocabulary } from "./labels.ts";

const MAX_TEXT = 4000;
const MAX_ENTRIES = 40;

type Read = Required<Omit<Decision, "grounding">>;

/** The schema of a field, its value in an empty decision, and the reader of a model's value. */
type Field<T> = readonly [schema: object, none: T, read: (value: unknown) => T];

const text: Field<string> = [{ type: "string" }, "", readText];
const texts: Field<readonly string[]> = [{ type: "array", items: { type: "string" } }, [], readTexts];
const optional: Field<string | null> = [{ type: ["string", "null"] }, null, readOptional];
const flag = { type: "boolean" };

const FIELDS: { readonly [K in keyof Read]: Field<Read[K]> } = {
  status: [
    { type: "string", enum: STATUSES },
    "structured_uncertainty",
    (value) => readStatus(value) ?? "structured_uncertainty",
  ],
  confidence: [{ type: "number", minimum: 0, maximum: 1 }, 0, readConfidence],
  leading_hypothesis: text,
  evidence: texts,
  missing_evidence: texts,
  rejected_hypotheses: texts,
  next_step: text,
  recommended_fix: optional,
  validation: texts,
  stop_reason: optional,
  risk_level: [{ type: "string", enum: ["low", "medium", "high"] }, "medium", readRisk],
  flow_directive: [
    { anyOf: [{ type: "null" }, strict({ skip_skeptic: flag, skip_rebuttal: flag, rationale: text[0] })] },
    null,
    readDirective,
  ],
};

function mapFields<T>(map: (field: Field<unknown>, name: string) => T) {
  const entries = Object.entries(FIELDS).map(([name, field]) => [name, map(field, name)]);
  return Object.fromEntries(entries) as { readonly [K in keyof Read]: T };
}

/** The JSON schema of a decision. Structured output requires that it lists every key and allows no others. */
export const DECISION_SCHEMA = strict(mapFields(([schema]) => schema));

function strict(properties: Readonly<Record<string, object>>): Readonly<Record<string, unknown>> {
  return { type: "object", properties, required: Object.keys(properties), additionalProperties: false };
}

/** A decision without any content. */
export const NO_DECISION = mapFields(([, none]) => none) as Decision;

export function parseDecision(text: string): Decision | undefined {
  const found = findJsonObjects(text)
    .flatMap((object) => [object, Object.values(object).find(isObject) ?? {}])
    .find((object) => readStatus(ownOf(object, "status")) !== undefined);
  if (found === undefined) return undefined;
  const risk = ownOf(found, "risk_level") ?? ownOf(found, "risk");
  const valueOf = (name: string) => name === "risk_level" ? risk : ownOf(found, name);
  return mapFields(([, , read], name) => read(valueOf(name))) as Decision;
}

function ownOf(object: Readonly<Record<string, unknown>>, key: string): unknown {
  return Object.hasOwn(object, key) ? object[key] : undefined;
}

/** Other words that models use for a status. */
const ALIASES: Readonly<Record<Decision["status"], string>> = {
  continue: "continue_debate next_round",
  final_diagnosis: "final diagnosis resolved",
  needs_more_data: "more_data need_more_data",
  propose_fix: "fix proposed_fix",
  structured_uncertainty: "uncertain uncertainty inconclusive",
};
const STATUS_WORDS = new Map(
  STATUSES.flatMap((status) =>
    [status, ...ALIASES[status].split(" ")].map((word) => [word, status] as const)
  ),
);

function readStatus(value: unknown): Decision["status"] | undefined {
  if (typeof value !== "string" || value.length > 60) return undefined;
  return STATUS_WORDS.get(value.trim().toLowerCase().replace(/[\s-]+/g, "_"));
}

/** Reads a number from 0 to 1. A value that is not clearly a share counts as 0. */
function readConfidence(value: unknown): number {
  const written = typeof value === "string" ? parseShare(value.slice(0, 30)) : value;
  if (typeof written !== "number" || !(written >= 0)) return 0;
  if (written <= 1) return written;
  return written >= 2 && written <= 100 ? written / 100 : 0;
}

function readRisk(value: unknown): Decision["risk_level"] {
  const word = typeof value === "string" ? value.slice(0, 30).trim().toLowerCase() : "";
  if (word === "low" || word === "high") return word;
  return word === "critical" || word === "severe" ? "high" : "medium";
}

function readText(value: unknown): string {
  if (typeof value === "string") return cutText(value.trim().toWellFormed(), MAX_TEXT);
  if (typeof value === "number" || typeof value === "boolean") return String(value);
  if (!isObject(value)) return "";
  return cutText(
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

function readDirective(value: unknown): Decision["flow_directive"] {
  if (!isObject(value)) return null;
  const isTrue = (key: string) => {
    const member = ownOf(value, key);
    return member === true || member === 1 ||
      (typeof member === "string" && /^\s*(?:true|yes|1)\s*$/i.test(member));
  };
  return {
    skip_skeptic: isTrue("skip_skeptic"),
    skip_rebuttal: isTrue("skip_rebuttal"),
    rationale: readText(ownOf(value, "rationale")),
  };
}

export const NO_EARLY_OUT: EarlyOutSignal = { recommended: false, confidence: 0, rationale: "" };

const MAX_RATIONALE = 1000;
const KEY = /^[\s>*_`-]{0,8}EARLY_OUT_(RECOMMENDED|CONFIDENCE|RATIONALE)[\s*_`]{0,4}:[\s*_`]{0,4}/i;
const OTHER_KEY = /^[\s>*_`-]{0,8}(?:[A-Z][A-Z0-9_]{2,40}\s?:|#{1,6}\s)/;

/**
 * Reads the three lines `EARLY_OUT_RECOMMENDED`, `…_CONFIDENCE` and `…_RATIONALE`. If a line occurs several
 * times, the last one counts.
 */
export function parseEarlyOut(text: string): EarlyOutSignal {
  let { recommended, confidence, rationale } = NO_EARLY_OUT;
  let isRationale = false;
  for (const whole of linesOf(text)) {
    const line = whole.slice(0, MAX_RATIONALE);
    const match = KEY.exec(line);
    if (match === null) {
      isRationale &&= !OTHER_KEY.test(line);
      if (isRationale && rationale.length < MAX_RATIONALE) rationale += ` ${line}`;
      continue;
    }
    const key = match[1]?.toUpperCase();
    const value = line.slice(match[0].length).replace(/[\s*_`]{1,8}$/, "");
    isRationale = key === "RATIONALE";
    if (isRationale) rationale = value;
    else if (key === "RECOMMENDED") recommended = /^(?:true|yes|1|s[ií])$/i.test(value);
    else confidence = parseShare(value) ?? 0;
  }
  return { recommended, confidence, rationale: cutText(oneLine(rationale), MAX_RATIONALE) };
}

/**
 * Whether the debate ends early. The diagnostic agent alone cannot end it: the moderator's confidence of the
 * same round must also reach the threshold, and its leading hypothesis must be fully grounded and not rejected.
 */
export function isEarlyOutConfirmed(
  rule: DebateTask["earlyOut"],
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

/** Limits the confidence of a decision to what the evidence allows, and adds the reason. */
export function limitConfidence(
  decision: Decision,
  hypotheses: readonly Hypothesis[],
  language: string,
): Grounded {
  const reasons = reasonsFor(language);
  const { confidence } = decision;
  const lead = findLeading(hypotheses, decision.leading_hypothesis);
  const found = lead === undefined || lead.state === "rejected" ? undefined : groundingOf(lead);
  const level = found?.level ?? "none";
  const cap = CAPS[level];
  const reason = lead === undefined
    ? reasons.noLead
    : found === undefined
    ? reasons.leadRejected(lead.id)
    : reasons[level](lead.id, found);
  const facts = { level, stated_confidence: confidence, cap, reason, outcome: null };
  return {
    ...decision,
    confidence: Math.min(confidence, cap ?? confidence),
    grounding: { hypothesis_id: lead?.id ?? null, ...facts },
  };
}

type Grounded = Decision & { readonly grounding: DecisionGrounding };

/** Adds the outcome to the decision that ends a debate. A cause must be fully grounded: confidence alone is not enough. */
export function withOutcome(
  decision: Grounded,
  { confidenceThreshold, earlyOutConfirmed }: {
    readonly confidenceThreshold: number;
    readonly earlyOutConfirmed: boolean;
  },
): Grounded {
  const { status, confidence, grounding } = decision;
  const names = status === "final_diagnosis" || status === "propose_fix" || earlyOutConfirmed;
  const isSure = names && grounding.level === "full" && confidence >= confidenceThreshold;
  return { ...decision, grounding: { ...grounding, outcome: isSure ? "cause" : "no_confident_cause" } };
}

const reasonsFor = vocabulary({
  noLead: [
    "the decision names no hypothesis of the debate",
    "la decisión no nombra ninguna hipótesis del debate",
  ],
  leadRejected: [
    (id: string) => `${id} was rejected in the debate`,
    (id: string) => `${id} se rechazó en el debate`,
  ],
  none: [
    (id: string, { cited, failed }: Grounding) =>
      failed > 0
        ? `no evidence for ${id} counts: ${failed} of ${cited} cited tool calls failed`
        : cited > 0
        ? `no evidence for ${id} counts: its quotes are not in the tool results`
        : `${id} cites no tool result`,
    (id: string, { cited, failed }: Grounding) =>
      failed > 0
        ? `ninguna evidencia de ${id} cuenta: fallaron ${failed} de ${cited} llamadas citadas`
        : cited > 0
        ? `ninguna evidencia de ${id} cuenta: sus citas no aparecen en los resultados`
        : `${id} no cita ningún resultado de herramientas`,
  ],
  partial: [
    (id: string, { grounded, cited, results }: Grounding) =>
      grounded < cited
        ? `only ${grounded} of ${cited} evidence lines for ${id} match the tool results that they cite`
        : results > 1
        ? `the skeptic cites a tool result against ${id} that its evidence does not explain`
        : `all evidence for ${id} comes from one tool result, and a second one is missing`,
    (id: string, { grounded, cited, results }: Grounding) =>
      grounded < cited
        ? `solo ${grounded} de ${cited} líneas de evidencia de ${id} coinciden con los resultados que citan`
        : results > 1
        ? `el escéptico cita contra ${id} un resultado que su evidencia no explica`
        : `toda la evidencia de ${id} procede de un único resultado y falta un segundo`,
  ],
  full: [
    (id: string, { grounded, results }: Grounding) =>
      `all evidence for ${id} matches the tool results that it cites (lines: ${grounded}, results: ${results})`,
    (id: string, { grounded, results }: Grounding) =>
      `toda la evidencia de ${id} coincide con los resultados que cita (líneas: ${grounded}, resultados: ${results})`,
  ],
});

const explanations = vocabulary({
  grounded: ["counts", "cuenta"],
  uncited: ["does not count: it cites no tool call", "no cuenta: no cita ninguna llamada"],
  unquoted: ["does not count: it quotes nothing from the result", "no cuenta: no copia nada del resultado"],
  no_such_call: [
    "does not count: the cited tool call does not exist",
    "no cuenta: la llamada citada no existe",
  ],
  failed_call: [
    "does not count: the cited call failed or was not run",
    "no cuenta: la llamada citada falló o no se ejecutó",
  ],
  not_in_result: [
    "does not count: the cited result does not contain the quote",
    "no cuenta: el resultado citado no contiene la cita",
  ],
  too_little: [
    "does not count: the quote is too short, or repeats the arguments of the call",
    "no cuenta: la cita es demasiado corta o repite los argumentos de la llamada",
  ],
  unchecked: ["not checked, because the run was imported", "sin comprobar: la ejecución es importada"],
});

export function explainEvidence(status: EvidenceStatus, language: string): string {
  return explanations(language)[status];
}

/** Formats a decision as blocks of a label and its text, separated by empty lines. */
export function formatFinalText(
  decision: Decision,
  hypotheses: readonly Hypothesis[],
  language: string,
): string {
  const labels = labelsFor(language);
  const { confidence, grounding } = decision;
  const { outcome = null, stated_confidence: stated = 0, reason } = grounding ?? {};
  const limit = stated > confidence ? `${stated.toFixed(2)} ${labels.stated}; ${reason}` : reason;
  const lead = findLeading(hypotheses, decision.leading_hypothesis);
  const checked = lead?.evidence.map(({ text, status }) => `${text} (${explainEvidence(status, language)})`);
  const list = (entries: readonly string[] = []) =>
    (entries.length > 0 ? entries : [labels.none]).map((entry) => `- ${entry}`).join("\n");
  return [
    `${labels.status}: ${decision.status}`,
    ...(outcome === null
      ? []
      : [`${labels.outcome}: ${outcome === "cause" ? labels.causeFound : labels.noConfidentCause}`]),
    `${labels.confidence}: ${confidence.toFixed(2)}${grounding === undefined ? "" : ` (${limit})`}`,
    `${labels.risk}: ${decision.risk_level}`,
    `${labels.leading}:\n${decision.leading_hypothesis || labels.notDetermined}`,
    `${labels.underDebate}:\n${list(hypotheses.map(({ id, state, text }) => `${id} [${state}]: ${text}`))}`,
    `${labels.evidence}:\n${list(checked)}`,
    `${labels.statedEvidence}:\n${list(decision.evidence)}`,
    `${labels.missingEvidence}:\n${list(decision.missing_evidence)}`,
    `${labels.rejected}:\n${list(decision.rejected_hypotheses)}`,
    `${labels.nextStep}:\n${decision.next_step || labels.notDetermined}`,
    `${labels.fix}:\n${decision.recommended_fix ?? labels.notRecommended}`,
    `${labels.validation}:\n${list(decision.validation)}`,
    `${labels.stopReason}:\n${decision.stop_reason ?? labels.notSpecified}`,
  ].join("\n\n");
}
