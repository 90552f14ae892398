import { labelsFor } from "./labels.ts";
import type { Decision, DecisionGrounding } from "./state.ts";
import { oneLine } from "./text.ts";

/** The verbs at the start of a step that only reads, in English and Spanish. */
const READING =
  /^(?:read|check|measure|compare|inspect|query|list|watch|review|collect|look|find|verify|examine|monitor|observe|gather|count|search|lee|leer|revisar?|comprueba|comprobar|mide|medir|comparar?|consultar?|listar?|observar?|examinar?|reúne|reunir|recoger?|buscar?|verificar?)(?!\p{L})/iu;
/** The words of a change, whatever the first word of the step is. */
const CHANGING = new RegExp(
  [
    String
      .raw`(?<!\p{L})(?:(?:restart|reboot|deploy|redeploy|roll|revert|undo|delet|drop|kill|stop|start|disabl|enabl|appl|patch|edit|changing|updat|upgrad|downgrad|increas|decreas|reduc|rais|lower|remov|clear|flush|truncat|purg|creat|replac|rotat|renew|install|uninstall|switch|drain|evict|bounc|cycl|recycl|reload|reset|migrat|execut|alter|vacuum|analyz|reindex|block|unblock|renam|tun|adjust|scal`,
    String
      .raw`|rein[ií]ci|despl|reviert|revert|borr|elimin|det[eé]n|desactiv|activ|aplic|cambi|actualiz|aument|añad|quit|vac[ií]|renov|renuev|escal|ajust|ejecut|correg|corrig)\p{L}*`,
    String
      .raw`|change|set|unset|add|move|turn|run|fix|open|close|pause|kubectl|sudo|systemctl|rm|sube|subir|baja|bajar|pon|poner|crea|crear)(?!\p{L})`,
  ].join(""),
  "iu",
);
/** A longer step probably contains more than one. */
const MAX_READING = 200;

type Judged = Decision & { readonly grounding: DecisionGrounding };

/** Marks the steps that change something as unproved until the evidence proves the cause. */
export function hedgeSteps(decision: Judged, language: string): Judged {
  const { grounding, next_step, recommended_fix } = decision;
  if (grounding.outcome === "cause") return decision;
  return {
    ...decision,
    next_step: isReading(next_step) ? next_step : hedge(next_step, language),
    recommended_fix: recommended_fix === null ? null : hedge(recommended_fix, language),
  };
}

function isReading(step: string): boolean {
  return step.length <= MAX_READING && READING.test(step) && !CHANGING.test(step);
}

function hedge(step: string, language: string): string {
  const mark = `${labelsFor(language).unproved}: `;
  return oneLine(step) === "" || step.startsWith(mark) ? step : `${mark}${step}`;
}
