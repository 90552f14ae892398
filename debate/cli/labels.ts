import { COMMON, spanish, vocabulary } from "../engine/graph/labels.ts";

export const labelsFor = vocabulary({
  topic: ["Topic", "Tema"],
  diagnostic: ["Diagnostic", "Diagnóstico"],
  skeptic: ["Skeptic", "Escéptico"],
  moderator: ["Moderator", "Moderador"],
  rounds: ["Rounds", "Rondas"],
  roundsValue: [
    (max: number, isSummarized: boolean) =>
      `at most ${max}, history ${isSummarized ? "summarized from round 3" : "in full"}`,
    (max: number, isSummarized: boolean) =>
      `máximo ${max}, historial ${isSummarized ? "resumido desde la ronda 3" : "completo"}`,
  ],
  confidence: ["Confidence", "Confianza"],
  confidenceValue: [
    (needed: number, early: number | undefined) =>
      `${needed} required, ${early === undefined ? "no early end" : `early end from ${early}`}`,
    (needed: number, early: number | undefined) =>
      `mínimo ${needed}, ${
        early === undefined ? "sin cierre anticipado" : `cierre anticipado desde ${early}`
      }`,
  ],
  template: ["Template", "Plantilla"],
  context: ["Context", "Contexto"],
  noContext: ["none", "ninguno"],
  contextValue: [
    (characters: number, isMasked: boolean) =>
      `${characters} characters, secrets ${isMasked ? "masked" : "NOT masked"}`,
    (characters: number, isMasked: boolean) =>
      `${characters} caracteres, secretos ${isMasked ? "ocultos" : "SIN ocultar"}`,
  ],
  tools: ["Tools", "Herramientas"],
  noTools: ["none", "ninguna"],
  toolsValue: [
    (names: readonly string[]) => `${names.join(", ")}; they run without approval`,
    (names: readonly string[]) => `${names.join(", ")}; se ejecutan sin aprobación`,
  ],
  toolsOff: ["Off", "Sin usar"],
  round: ["Round", "Ronda"],
  finalResult: ["Final result", "Resultado final"],
  role: COMMON.word,
  operator: ["Operator", "Operador"],
  skipped: [
    (why: string) => `skipped: ${why || "the moderator has no task for it"}`,
    (why: string) => `omitido: ${why || "el moderador no tiene ninguna tarea para él"}`,
  ],
  summarized: ["Older rounds were summarized.", "Las rondas anteriores se han resumido."],
  noEffort: [
    (model: string) => `${model} does not support a reasoning effort.`,
    (model: string) => `${model} no admite nivel de razonamiento.`,
  ],
  waiting: [
    (model: string, seconds: number) => `${model} is rate limited, retry in ${seconds} s.`,
    (model: string, seconds: number) => `${model} limita la frecuencia, reintento en ${seconds} s.`,
  ],
  cached: ["cached", "en caché"],
  notRun: ["not run", "sin ejecutar"],
  ok: ["ok", "ok"],
  failed: ["failed", "error"],
  moreLines: [
    (count: number) => `(${count} more ${count === 1 ? "line" : "lines"})`,
    (count: number) => `(${count} ${count === 1 ? "línea" : "líneas"} más)`,
  ],
  hypotheses: ["Hypotheses", "Hipótesis"],
  counting: [
    (counting: number, all: number) => `(${counting} of ${all} lines of evidence count)`,
    (counting: number, all: number) => `(cuentan ${counting} de ${all} líneas de evidencia)`,
  ],
  decision: [
    (status: string, confidence: string, risk: string) => `${status}, confidence ${confidence}, risk ${risk}`,
    (status: string, confidence: string, risk: string) =>
      `${status}, confianza ${confidence}, riesgo ${spanish(risk)}`,
  ],
  noConfidentCause: ["No confident cause", "Causa no confirmada"],
  evidence: ["Evidence", "Evidencia"],
  stated: [
    (share: string) => `the moderator stated ${share}: `,
    (share: string) => `el moderador indicó ${share}: `,
  ],
  leads: ["Leading", "Principal"],
  next: ["Next", "Siguiente"],
  note: ["note", "nota"],
  rounded: [
    (rounds: number) => `${rounds} ${rounds === 1 ? "round" : "rounds"}`,
    (rounds: number) => `${rounds} ${rounds === 1 ? "ronda" : "rondas"}`,
  ],
  tokens: [
    (input: number, output: number) => `${input} tokens in and ${output} out`,
    (input: number, output: number) => `${input} tokens de entrada y ${output} de salida`,
  ],
  cost: [
    (cost: string | undefined) => cost === undefined ? "cost unknown" : `about $${cost}`,
    (cost: string | undefined) => cost === undefined ? "coste desconocido" : `unos $${cost}`,
  ],
});

export type Labels = ReturnType<typeof labelsFor>;
