import { SPANISH } from "./es.ts";
import { readChoice, storeChoice } from "./stored.ts";

/** Texts for stored words. */
const NAMES: Readonly<Record<string, string>> = {
  final_diagnosis: "final diagnosis",
  needs_more_data: "needs more data",
  propose_fix: "propose fix",
  structured_uncertainty: "structured uncertainty",
  needs_evidence: "needs evidence",
  none_effort: "none",
};

function preferred(): "en" | "es" {
  const wanted = readChoice("language") || (globalThis.document === undefined ? "en" : navigator.language);
  return /^es\b/i.test(wanted) ? "es" : "en";
}

/** The language of the page: the choice of the user, or else of the browser. Agents have a separate language. */
export const LANGUAGE = preferred();

/** Translates a text of the page. `{name}` is replaced by a value. */
export function t(text: string, values: Readonly<Record<string, unknown>> = {}): string {
  const texts: Readonly<Record<string, string>> = LANGUAGE === "es" ? SPANISH : NAMES;
  return fill(Object.hasOwn(texts, text) ? texts[text] ?? text : text, values);
}

/** Inserts values into a text. */
export function fill(text: string, values: Readonly<Record<string, unknown>>): string {
  return text.replace(/\{(\w+)\}/g, (_, name) => String(values[name] ?? ""));
}

/** The name of a language. The code of a template can be unknown. */
export function languageName(code: string): string {
  try {
    return new Intl.DisplayNames([LANGUAGE], { type: "language" }).of(code) ?? code;
  } catch {
    return code;
  }
}

/** Whether the page has no unsent text, or the user accepts its loss. */
export function mayLoseText(): boolean {
  const isWritten = [...document.querySelectorAll("textarea")]
    .some(({ value, defaultValue }) => value !== defaultValue);
  return !isWritten || confirm(t("Unsent text on this page will be lost. Continue?"));
}

/** Stores a language and reloads the page in it. Returns `false` if the user keeps unsent text. */
export function speak(language: string): boolean {
  if (!mayLoseText()) return false;
  storeChoice("language", language);
  location.reload();
  return true;
}
