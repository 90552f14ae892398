import { SPANISH } from "./es.js";

/**
 * What is stored in one word, as it is said.
 *
 * @type {Readonly<Record<string, string>>}
 */
const NAMES = {
  final_diagnosis: "final diagnosis",
  needs_more_data: "needs more data",
  propose_fix: "propose fix",
  structured_uncertainty: "structured uncertainty",
  needs_evidence: "needs evidence",
  none_effort: "none",
};

const KEY = "language";

/** Browsers may forbid a page to remember anything; tests have none. */
function remembered() {
  try {
    return globalThis.document === undefined ? "" : localStorage.getItem(KEY) ?? "";
  } catch {
    return "";
  }
}

function preferred() {
  const wanted = remembered() || (globalThis.document === undefined ? "en" : navigator.language);
  return /^es\b/i.test(wanted) ? "es" : "en";
}

/** The language of the page, as the reader chose it or else as the browser asks for it; not that of the agents. */
export const LANGUAGE = preferred();

/** @type {Readonly<Record<string, string>>} */
const IN_SPANISH = SPANISH;

/**
 * A text of the page in its language; `{name}` stands for a value.
 *
 * @param {string} text
 * @param {Readonly<Record<string, unknown>>} [values]
 */
export function t(text, values = {}) {
  return fill(LANGUAGE === "es" ? IN_SPANISH[text] ?? text : NAMES[text] ?? text, values);
}

/**
 * A language by its name, in the language of the page; a template's file may name none that exists.
 *
 * @param {string} code
 */
export function languageName(code) {
  try {
    return new Intl.DisplayNames([LANGUAGE], { type: "language" }).of(code) ?? code;
  } catch {
    return code;
  }
}

/**
 * A text with its values.
 *
 * @param {string} text
 * @param {Readonly<Record<string, unknown>>} values
 */
export function fill(text, values) {
  return text.replace(/\{(\w+)\}/g, (_, name) => String(values[name] ?? ""));
}

/**
 * Remembers a language and shows everything in it.
 *
 * @param {string} language
 */
export function speak(language) {
  try {
    localStorage.setItem(KEY, language);
  } catch {
    return;
  }
  location.reload();
}

/** Translates what the page itself says; foreign text is not yet in it. */
export function translatePage() {
  document.documentElement.lang = LANGUAGE;
  if (LANGUAGE === "en") return;
  const walker = document.createTreeWalker(document.documentElement, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node !== null; node = walker.nextNode()) {
    const value = node.nodeValue ?? "";
    const text = value.trim();
    const said = IN_SPANISH[text.replace(/\s+/g, " ")];
    if (said !== undefined) node.nodeValue = value.replace(text, () => said);
  }
  for (const name of ["placeholder", "aria-label"]) {
    for (const element of document.querySelectorAll(`[${name}]`)) {
      element.setAttribute(name, t(element.getAttribute(name) ?? ""));
    }
  }
}
