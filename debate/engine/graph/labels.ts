export function labelLanguage(language: string): "en" | "es" {
  return /^es(?:[-_]|$)/i.test(language.trim()) ? "es" : "en";
}

type Texts<T extends Readonly<Record<string, readonly unknown[]>>> = {
  readonly [K in keyof T]: T[K][number];
};

/** Chooses between texts that are written in English and in Spanish, in this order. */
export function vocabulary<T extends Readonly<Record<string, readonly unknown[]>>>(pairs: T) {
  const select = (index: 0 | 1) =>
    Object.fromEntries(Object.entries(pairs).map(([name, pair]) => [name, pair[index]])) as Texts<T>;
  const [english, spanish] = [select(0), select(1)];
  return (language: string): Texts<T> => labelLanguage(language) === "es" ? spanish : english;
}

/** The words that prompts, results and reports share. */
export const COMMON = {
  status: ["Status", "Estado"],
  confidence: ["Confidence", "Confianza"],
  risk: ["Risk", "Riesgo"],
  leading: ["Leading hypothesis", "Hipótesis principal"],
  evidence: ["Evidence", "Evidencia"],
  statedEvidence: ["Evidence, as the moderator states it", "Evidencia, según el moderador"],
  missingEvidence: ["Missing evidence", "Evidencia que falta"],
  rejected: ["Rejected hypotheses", "Hipótesis rechazadas"],
  nextStep: ["Next step", "Siguiente paso"],
  fix: ["Recommended fix", "Arreglo recomendado"],
  validation: ["Validation", "Validación"],
  stopReason: ["Stop reason", "Motivo del cierre"],
  noNewEvidence: ["agreement without new evidence", "acuerdo sin evidencia nueva"],
  outcome: ["Outcome", "Resultado"],
};

export const labelsFor = vocabulary({
  ...COMMON,
  underDebate: ["Hypotheses under debate", "Hipótesis en debate"],
  none: ["None.", "Ninguna."],
  notDetermined: ["Not determined", "Sin determinar"],
  notRecommended: ["Not recommended", "Sin recomendación"],
  notSpecified: ["Not specified", "Sin especificar"],
  topic: ["TOPIC", "TEMA"],
  context: ["CONTEXT", "CONTEXTO"],
  noContext: ["No context was given.", "No hay contexto."],
  round: ["ROUND", "RONDA"],
  maxRounds: ["ROUNDS AT MOST", "RONDAS COMO MÁXIMO"],
  threshold: ["CONFIDENCE NEEDED", "CONFIANZA NECESARIA"],
  earlyOutThreshold: ["CONFIDENCE NEEDED TO END EARLY", "CONFIANZA NECESARIA PARA TERMINAR ANTES"],
  hypotheses: ["HYPOTHESES SO FAR", "HIPÓTESIS HASTA AHORA"],
  noHypotheses: ["None yet.", "Ninguna todavía."],
  history: ["EARLIER IN THIS DEBATE", "LO DICHO HASTA AHORA"],
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
  roundsUsedUp: ["The rounds are used up", "Se agotaron las rondas"],
  earlyOutConfirmed: [
    "Ended early: diagnostic agent and moderator agree",
    "Cierre anticipado: el diagnóstico y el moderador coinciden",
  ],
  noReason: ["no reason was stated", "no se dio ningún motivo"],
  accepted: ["accepted", "aceptada"],
  causeFound: ["Cause found", "Causa encontrada"],
  noConfidentCause: ["No confident cause", "Sin causa segura"],
  stated: ["stated by the moderator", "según el moderador"],
  needsEvidence: ["needs evidence", "falta evidencia"],
  leadConfirmed: [
    "leading hypothesis of the closing decision",
    "hipótesis principal de la decisión de cierre",
  ],
  operatorPinned: ["the operator wants this examined further", "el operador quiere que se siga examinando"],
  operatorDropped: ["dropped by the operator", "descartada por el operador"],
  operatorAdded: ["added by the operator", "añadida por el operador"],
  unusable: [
    "The moderator's reply could not be read as a decision",
    "La respuesta del moderador no se pudo leer como decisión",
  ],
  unusableNextStep: [
    "Read the debate, then resume the run, or choose another moderator model",
    "Lee el debate y reanuda la ejecución, o elige otro modelo de moderador",
  ],
  samplesAgree: [
    (diagnoses: number, id: string) =>
      `All ${diagnoses} independent diagnoses lead with ${id}, and all evidence for it counts`,
    (diagnoses: number, id: string) =>
      `Los ${diagnoses} diagnósticos independientes coinciden en ${id}, y toda su evidencia cuenta`,
  ],
  samplesGuess: [
    (diagnoses: number, id: string) =>
      `All ${diagnoses} independent diagnoses lead with ${id}, but not enough evidence for it counts: it is debated`,
    (diagnoses: number, id: string) =>
      `Los ${diagnoses} diagnósticos independientes coinciden en ${id}, pero no cuenta bastante evidencia: se debate`,
  ],
  samplesDiffer: [
    (votes: string) => `The independent diagnoses differ, each leading with its own cause: ${votes}`,
    (votes: string) => `Los diagnósticos independientes difieren, cada uno con su causa: ${votes}`,
  ],
  oneModel: [
    (model: string) =>
      `All roles use the model ${model}: it shares its own blind spots, so agreement says little`,
    (model: string) =>
      `Todos los papeles usan el modelo ${model}: comparte sus propios puntos ciegos, así que el acuerdo dice poco`,
  ],
});

export type Labels = ReturnType<typeof labelsFor>;
