export function labelLanguage(language: string): "en" | "es" {
  return /^es(?:[-_]|$)/i.test(language.trim()) ? "es" : "en";
}

type Texts<T extends Readonly<Record<string, readonly unknown[]>>> = {
  readonly [K in keyof T]: T[K][number];
};

/** Selects texts by language from pairs of an English and a Spanish text. */
export function vocabulary<T extends Readonly<Record<string, readonly unknown[]>>>(pairs: T) {
  const select = (index: 0 | 1) =>
    Object.fromEntries(Object.entries(pairs).map(([name, pair]) => [name, pair[index]])) as Texts<T>;
  const [english, spanish] = [select(0), select(1)];
  return (language: string): Texts<T> => labelLanguage(language) === "es" ? spanish : english;
}

/** A map, because a stored record may contain any word. */
const SPANISH = new Map(Object.entries({
  "Primary Diagnosis": "Diagnóstico principal",
  "Skeptical Reviewer": "Revisor escéptico",
  ...{ Rebuttal: "Réplica", Moderator: "Moderador" },
  ...{ active: "activa", confirmed: "confirmada", rejected: "rechazada", accepted: "aceptada" },
  ...{ needs_evidence: "falta evidencia", low: "bajo", medium: "medio", high: "alto" },
  ...{ approved: "aprobada", timeout: "sin respuesta a tiempo", cached: "en caché", auto: "automática" },
}));

const english = (word: string) => word.replace("_", " ");
const spanish = (word: string) => SPANISH.get(word) ?? english(word);

/** Texts that prompts, results and reports share. */
export const COMMON = {
  /** A role, a state, a verdict, a risk or an approval. */
  word: [english, spanish],
  status: ["Status", "Estado"],
  confidence: ["Confidence", "Confianza"],
  risk: ["Risk", "Riesgo"],
  leading: ["Leading hypothesis", "Hipótesis principal"],
  evidence: ["Evidence", "Evidencia"],
  statedEvidence: ["Evidence stated by the moderator", "Evidencia según el moderador"],
  missingEvidence: ["Missing evidence", "Evidencia pendiente"],
  rejected: ["Rejected by the moderator", "Rechazadas por el moderador"],
  nextStep: ["Next step", "Siguiente paso"],
  fix: ["Recommended fix", "Solución recomendada"],
  validation: ["Validation", "Validación"],
  stopReason: ["Stop reason", "Motivo del cierre"],
  noNewEvidence: ["agreement without new evidence", "acuerdo sin evidencia nueva"],
  outcome: ["Outcome", "Resultado"],
  unproved: ["Unproved", "Sin probar"],
};

export const labelsFor = vocabulary({
  ...COMMON,
  underDebate: ["Hypotheses under debate", "Hipótesis en debate"],
  none: ["None.", "Ninguna."],
  notDetermined: ["Not determined", "Sin determinar"],
  notRecommended: ["None recommended", "Ninguna"],
  notSpecified: ["Not specified", "Sin especificar"],
  topic: ["TOPIC", "TEMA"],
  context: ["CONTEXT", "CONTEXTO"],
  noContext: ["No context was given.", "Sin contexto."],
  round: ["ROUND", "RONDA"],
  maxRounds: ["MAXIMUM ROUNDS", "MÁXIMO DE RONDAS"],
  threshold: ["REQUIRED CONFIDENCE", "CONFIANZA MÍNIMA"],
  earlyOutThreshold: ["REQUIRED CONFIDENCE FOR AN EARLY END", "CONFIANZA MÍNIMA PARA UN CIERRE ANTICIPADO"],
  hypotheses: ["HYPOTHESES SO FAR", "HIPÓTESIS HASTA AHORA"],
  noHypotheses: ["None yet.", "Ninguna todavía."],
  history: ["DEBATE SO FAR", "DEBATE HASTA AHORA"],
  noHistory: ["Nothing yet.", "Nada todavía."],
  summary: ["SUMMARY OF EARLIER ROUNDS", "RESUMEN DE RONDAS ANTERIORES"],
  diagnosis: ["DIAGNOSIS OF THIS ROUND", "DIAGNÓSTICO DE ESTA RONDA"],
  ownDiagnosis: ["YOUR DIAGNOSIS OF THIS ROUND", "TU DIAGNÓSTICO DE ESTA RONDA"],
  critique: ["CRITIQUE OF THIS ROUND", "CRÍTICA DE ESTA RONDA"],
  rebuttal: ["REBUTTAL OF THIS ROUND", "RÉPLICA DE ESTA RONDA"],
  earlyOut: ["EARLY END", "CIERRE ANTICIPADO"],
  task: ["YOUR TASK", "TU TAREA"],
  rejectedBecause: ["rejected because", "rechazada porque"],
  skepticSkipped: ["(Skeptic skipped by the moderator", "(El moderador omitió al escéptico"],
  rebuttalSkipped: ["(Rebuttal skipped by the moderator", "(El moderador omitió la réplica"],
  roundsUsedUp: ["All rounds are used", "Rondas agotadas"],
  earlyOutConfirmed: [
    "Ended early: diagnostic agent and moderator agree",
    "Cierre anticipado: el agente de diagnóstico y el moderador coinciden",
  ],
  noReason: ["no reason given", "sin motivo indicado"],
  accepted: ["accepted", "aceptada"],
  causeFound: ["Cause found", "Causa identificada"],
  noConfidentCause: ["No confident cause", "Causa no confirmada"],
  stated: ["stated by the moderator", "según el moderador"],
  needsEvidence: ["needs evidence", "falta evidencia"],
  leadConfirmed: ["leading hypothesis of the final decision", "hipótesis principal de la decisión final"],
  operatorPinned: ["the operator wants this examined further", "el operador pide seguir investigándola"],
  operatorDropped: ["dropped by the operator", "descartada por el operador"],
  operatorAdded: ["added by the operator", "añadida por el operador"],
  unusable: [
    "The moderator's reply is not a valid decision",
    "La respuesta del moderador no es una decisión válida",
  ],
  unusableNextStep: [
    "Read the debate, then resume it or choose another moderator model",
    "Lee el debate y reanuda la ejecución o elige otro modelo de moderador",
  ],
  samplesAgree: [
    (diagnoses: number, id: string) =>
      `All ${diagnoses} independent diagnoses lead with ${id}, and all its evidence counts`,
    (diagnoses: number, id: string) =>
      `Los ${diagnoses} diagnósticos independientes coinciden en ${id} y toda su evidencia cuenta`,
  ],
  samplesGuess: [
    (diagnoses: number, id: string) =>
      `All ${diagnoses} independent diagnoses lead with ${id}, but not enough of its evidence counts to skip the debate`,
    (diagnoses: number, id: string) =>
      `Los ${diagnoses} diagnósticos independientes coinciden en ${id}, pero falta evidencia que cuente para omitir el debate`,
  ],
  samplesDiffer: [
    (votes: string) => `The independent diagnoses lead with different causes: ${votes}`,
    (votes: string) => `Los diagnósticos independientes apuntan a causas distintas: ${votes}`,
  ],
  oneModel: [
    (model: string) =>
      `All roles use the model ${model} and share its blind spots, so their agreement proves little`,
    (model: string) =>
      `Todos los roles usan el modelo ${model} y comparten sus puntos ciegos, así que su acuerdo prueba poco`,
  ],
});

export type Labels = ReturnType<typeof labelsFor>;
