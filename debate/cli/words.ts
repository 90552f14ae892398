import { labelLanguage } from "../engine/graph/labels.ts";

const ENGLISH = {
  topic: "Topic",
  diagnostic: "Diagnostic",
  skeptic: "Skeptic",
  moderator: "Moderator",
  rounds: "Rounds",
  roundsValue: (max: number, isSummarised: boolean) =>
    `at most ${max}, history ${isSummarised ? "summarised from round 3" : "in full"}`,
  confidence: "Confidence",
  confidenceValue: (needed: number, early: number | undefined) =>
    `${needed} needed, ${early === undefined ? "no early end" : `early end from ${early}`}`,
  template: "Template",
  context: "Context",
  noContext: "none",
  contextValue: (characters: number, isMasked: boolean) =>
    `${characters} characters, secrets ${isMasked ? "masked" : "NOT masked"}`,
  tools: "Tools",
  noTools: "none",
  toolsValue: (count: number) => `${count}, run without asking`,
  debate: "Debate",
  round: "Round",
  finalResult: "Final result",
  roles: {
    "Primary Diagnosis": "Primary Diagnosis",
    "Skeptical Reviewer": "Skeptical Reviewer",
    "Rebuttal": "Rebuttal",
    "Moderator": "Moderator",
  } as Readonly<Record<string, string>>,
  operator: "Operator",
  skipped: (why: string) => `skipped: ${why || "the moderator saw nothing for it to do"}`,
  summarised: "Older rounds were summarised.",
  noEffort: (model: string) => `${model} has no reasoning effort to set.`,
  cached: "cached",
  notRun: "not run",
  ok: "ok",
  failed: "failed",
  moreLines: (count: number) => `(${count} more ${count === 1 ? "line" : "lines"})`,
  hypotheses: "Hypotheses",
  counting: (counting: number, all: number) => `(${counting} of ${all} lines of evidence count)`,
  decision: (status: string, confidence: string, risk: string) =>
    `${status}, confidence ${confidence}, risk ${risk}`,
  noConfidentCause: "No confident cause",
  evidence: "Evidence",
  stated: (share: string) => `${share} was stated: `,
  leads: "Leads",
  next: "Next",
  note: "note",
  costs: (rounds: number, seconds: string, tokensIn: number, tokensOut: number, cost: string | undefined) =>
    `${rounds} ${
      rounds === 1 ? "round" : "rounds"
    }, ${seconds} s, ${tokensIn} tokens in and ${tokensOut} out, ${
      cost === undefined ? "cost unknown" : `about $${cost}`
    }`,
};

export type Words = Readonly<typeof ENGLISH>;

const SPANISH: Words = {
  topic: "Tema",
  diagnostic: "Diagnóstico",
  skeptic: "Escéptico",
  moderator: "Moderador",
  rounds: "Rondas",
  roundsValue: (max, isSummarised) =>
    `${max} como máximo, historial ${isSummarised ? "resumido desde la ronda 3" : "completo"}`,
  confidence: "Confianza",
  confidenceValue: (needed, early) =>
    `${needed} necesaria, ${
      early === undefined ? "sin cierre anticipado" : `cierre anticipado desde ${early}`
    }`,
  template: "Plantilla",
  context: "Contexto",
  noContext: "ninguno",
  contextValue: (characters, isMasked) =>
    `${characters} caracteres, secretos ${isMasked ? "ocultos" : "SIN ocultar"}`,
  tools: "Herramient.",
  noTools: "ninguna",
  toolsValue: (count) => `${count}, se ejecutan sin preguntar`,
  debate: "Debate",
  round: "Ronda",
  finalResult: "Resultado final",
  roles: {
    "Primary Diagnosis": "Diagnóstico principal",
    "Skeptical Reviewer": "Revisor escéptico",
    "Rebuttal": "Réplica",
    "Moderator": "Moderador",
  },
  operator: "Operador",
  skipped: (why) => `omitido: ${why || "el moderador no vio nada que hacer"}`,
  summarised: "Se resumieron rondas anteriores.",
  noEffort: (model) => `${model} no tiene esfuerzo de razonamiento ajustable.`,
  cached: "de caché",
  notRun: "sin ejecutar",
  ok: "bien",
  failed: "falló",
  moreLines: (count) => `(${count} ${count === 1 ? "línea" : "líneas"} más)`,
  hypotheses: "Hipótesis",
  counting: (counting, all) => `(cuentan ${counting} de ${all} líneas de evidencia)`,
  decision: (status, confidence, risk) => `${status}, confianza ${confidence}, riesgo ${risk}`,
  noConfidentCause: "Sin causa segura",
  evidence: "Evidencia",
  stated: (share) => `${share} según el moderador: `,
  leads: "Principal",
  next: "Siguiente",
  note: "nota",
  costs: (rounds, seconds, tokensIn, tokensOut, cost) =>
    `${rounds} ${
      rounds === 1 ? "ronda" : "rondas"
    }, ${seconds} s, ${tokensIn} tokens de entrada y ${tokensOut} de salida, ${
      cost === undefined ? "coste desconocido" : `unos $${cost}`
    }`,
};

export function wordsFor(language: string): Words {
  return labelLanguage(language) === "es" ? SPANISH : ENGLISH;
}
