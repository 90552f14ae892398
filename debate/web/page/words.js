import { SPANISH } from "./es.js";

/** What is stored in one word, as it is said. */
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

/** A text of the page in its language; `{name}` stands for a value. */
export function t(text, values = {}) {
  return fill(LANGUAGE === "es" ? SPANISH[text] ?? text : NAMES[text] ?? text, values);
}

/** A text with its values. */
export function fill(text, values) {
  return text.replace(/\{(\w+)\}/g, (_, name) => String(values[name] ?? ""));
}

/** Remembers a language and shows everything in it. */
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
  while (walker.nextNode()) {
    const { data } = walker.currentNode;
    const [, before, text, after] = /^(\s*)([^]*?)(\s*)$/.exec(data);
    const said = SPANISH[text.replace(/\s+/g, " ")];
    if (said !== undefined) walker.currentNode.data = before + said + after;
  }
  for (const name of ["placeholder", "aria-label"]) {
    for (const element of document.querySelectorAll(`[${name}]`)) {
      element.setAttribute(name, t(element.getAttribute(name)));
    }
  }
}
