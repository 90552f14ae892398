import { CAPS, groundingOf } from "./evidence.ts";
import { findLeading } from "./hypothesis_id.ts";
import { vocabulary } from "./labels.ts";
import type { Decision, DecisionGrounding, EvidenceStatus, Grounding, Hypothesis } from "./state.ts";

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
