import { SPANISH } from "./es.js";

/**
 * Texts for stored words.
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

/** Browsers can block the storage of a page, and tests have none. */
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

/**
 * The language of the page: the choice of the user, or else of the browser. Agents have a separate language.
 */
export const LANGUAGE = preferred();

/** @type {Readonly<Record<string, string>>} */
const IN_SPANISH = SPANISH;

/**
 * Translates a text of the page. `{name}` is replaced by a value.
 * @param {string} text
 * @param {Readonly<Record<string, unknown>>} [values]
 */
export function t(text, values = {}) {
  return fill(LANGUAGE === "es" ? IN_SPANISH[text] ?? text : NAMES[text] ?? text, values);
}

/**
 * The name of a language. The code of a template can be unknown.
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
 * Inserts values into a text.
 * @param {string} text
 * @param {Readonly<Record<string, unknown>>} values
 */
export function fill(text, values) {
  return text.replace(/\{(\w+)\}/g, (_, name) => String(values[name] ?? ""));
}

/**
 * Stores a language and applies it to the page.
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

/** Translates the static page, which has no foreign text yet. */
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
