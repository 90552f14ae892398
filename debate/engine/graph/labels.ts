type LabelLanguage = "en" | "es";

export function labelLanguage(language: string): LabelLanguage {
  return /^es(?:[-_]|$)/i.test(language.trim()) ? "es" : "en";
}

/** The words that prompts, results and reports share. */
export const COMMON = {
  en: {
    status: "Status",
    confidence: "Confidence",
    risk: "Risk",
    leading: "Leading hypothesis",
    evidence: "Evidence",
    statedEvidence: "Evidence, as the moderator states it",
    missingEvidence: "Missing evidence",
    rejected: "Rejected hypotheses",
    nextStep: "Next step",
    fix: "Recommended fix",
    validation: "Validation",
    stopReason: "Stop reason",
    noNewEvidence: "agreement without new evidence",
    outcome: "Outcome",
  },
  es: {
    status: "Estado",
    confidence: "Confianza",
    risk: "Riesgo",
    leading: "Hipótesis principal",
    evidence: "Evidencia",
    statedEvidence: "Evidencia, según el moderador",
    missingEvidence: "Evidencia que falta",
    rejected: "Hipótesis rechazadas",
    nextStep: "Siguiente paso",
    fix: "Arreglo recomendado",
    validation: "Validación",
    stopReason: "Motivo del cierre",
    noNewEvidence: "acuerdo sin evidencia nueva",
    outcome: "Resultado",
  },
};

const ENGLISH = {
  ...COMMON.en,
  underDebate: "Hypotheses under debate",
  none: "None.",
  notDetermined: "Not determined",
  notRecommended: "Not recommended",
  notSpecified: "Not specified",

  topic: "TOPIC",
  context: "CONTEXT",
  noContext: "No context was given.",
  round: "ROUND",
  maxRounds: "ROUNDS AT MOST",
  threshold: "CONFIDENCE NEEDED",
  earlyOutThreshold: "CONFIDENCE NEEDED TO END EARLY",
  hypotheses: "HYPOTHESES SO FAR",
  noHypotheses: "None yet.",
  history: "EARLIER IN THIS DEBATE",
  noHistory: "Nothing yet.",
  summary: "SUMMARY OF EARLIER ROUNDS",
  diagnosis: "DIAGNOSIS OF THIS ROUND",
  ownDiagnosis: "YOUR DIAGNOSIS OF THIS ROUND",
  critique: "CRITIQUE OF THIS ROUND",
  rebuttal: "REBUTTAL OF THIS ROUND",
  earlyOut: "EARLY END",
  task: "YOUR TASK",
  rejectedBecause: "rejected because",

  skepticSkipped: "(Skeptic skipped by the moderator",
  rebuttalSkipped: "(Rebuttal skipped by the moderator",
  roundsUsedUp: "The rounds are used up",
  earlyOutConfirmed: "Ended early: diagnostic agent and moderator agree",
  noReason: "no reason was stated",
  accepted: "accepted",
  causeFound: "Cause found",
  noConfidentCause: "No confident cause",
  stated: "stated by the moderator",
  needsEvidence: "needs evidence",
  leadConfirmed: "leading hypothesis of the closing decision",
  operatorPinned: "the operator wants this examined further",
  operatorDropped: "dropped by the operator",
  operatorAdded: "added by the operator",
  unusable: "The moderator's reply could not be read as a decision",
  unusableNextStep: "Read the debate, then resume the run, or choose another moderator model",
  samplesAgree: (diagnoses: number, id: string) =>
    `All ${diagnoses} independent diagnoses lead with ${id}, and all evidence for it counts`,
  samplesGuess: (diagnoses: number, id: string) =>
    `All ${diagnoses} independent diagnoses lead with ${id}, but not enough evidence for it counts: it is debated`,
  samplesDiffer: (votes: string) =>
    `The independent diagnoses differ, each leading with its own cause: ${votes}`,
  oneModel: (model: string) =>
    `All roles use the model ${model}: it shares its own blind spots, so agreement says little`,
};

export type Labels = Readonly<typeof ENGLISH>;

const SPANISH: Labels = {
  ...COMMON.es,
  underDebate: "Hipótesis en debate",
  none: "Ninguna.",
  notDetermined: "Sin determinar",
  notRecommended: "Sin recomendación",
  notSpecified: "Sin especificar",

  topic: "TEMA",
  context: "CONTEXTO",
  noContext: "No hay contexto.",
  round: "RONDA",
  maxRounds: "RONDAS COMO MÁXIMO",
  threshold: "CONFIANZA NECESARIA",
  earlyOutThreshold: "CONFIANZA NECESARIA PARA TERMINAR ANTES",
  hypotheses: "HIPÓTESIS HASTA AHORA",
  noHypotheses: "Ninguna todavía.",
  history: "LO DICHO HASTA AHORA",
  noHistory: "Nada todavía.",
  summary: "RESUMEN DE RONDAS ANTERIORES",
  diagnosis: "DIAGNÓSTICO DE ESTA RONDA",
  ownDiagnosis: "TU DIAGNÓSTICO DE ESTA RONDA",
  critique: "CRÍTICA DE ESTA RONDA",
  rebuttal: "RÉPLICA DE ESTA RONDA",
  earlyOut: "CIERRE ANTICIPADO",
  task: "TU TAREA",
  rejectedBecause: "rechazada porque",

  skepticSkipped: "(El moderador omitió al escéptico",
  rebuttalSkipped: "(El moderador omitió la réplica",
  roundsUsedUp: "Se agotaron las rondas",
  earlyOutConfirmed: "Cierre anticipado: el diagnóstico y el moderador coinciden",
  noReason: "no se dio ningún motivo",
  accepted: "aceptada",
  causeFound: "Causa encontrada",
  noConfidentCause: "Sin causa segura",
  stated: "según el moderador",
  needsEvidence: "falta evidencia",
  leadConfirmed: "hipótesis principal de la decisión de cierre",
  operatorPinned: "el operador quiere que se siga examinando",
  operatorDropped: "descartada por el operador",
  operatorAdded: "añadida por el operador",
  unusable: "La respuesta del moderador no se pudo leer como decisión",
  unusableNextStep: "Lee el debate y reanuda la ejecución, o elige otro modelo de moderador",
  samplesAgree: (diagnoses, id) =>
    `Los ${diagnoses} diagnósticos independientes coinciden en ${id}, y toda su evidencia cuenta`,
  samplesGuess: (diagnoses, id) =>
    `Los ${diagnoses} diagnósticos independientes coinciden en ${id}, pero no cuenta bastante evidencia: se debate`,
  samplesDiffer: (votes) => `Los diagnósticos independientes difieren, cada uno con su causa: ${votes}`,
  oneModel: (model) =>
    `Todos los papeles usan el modelo ${model}: comparte sus propios puntos ciegos, así que el acuerdo dice poco`,
};

export function labelsFor(language: string): Labels {
  return labelLanguage(language) === "es" ? SPANISH : ENGLISH;
}
