import { announce, make } from "./api.js";
import { t } from "./language.js";

const SHOWN_MS = 2000;

/**
 * A code block with a button that copies the shown text.
 * @param {...import("./types.js").Content} content
 */
export function codeBlock(...content) {
  const text = make("pre", { tabIndex: 0 }, ...content);
  const button = make("button", { type: "button", className: "copy" }, t("Copy"));
  button.addEventListener("click", async () => {
    const said = await copy(text) ? t("Copied") : t("Selected: copy it with the keyboard");
    button.textContent = said;
    announce(said);
    setTimeout(() => button.textContent = t("Copy"), SHOWN_MS);
  });
  return make("div", { className: "code" }, text, button);
}

/**
 * Browsers allow the clipboard only with HTTPS or on localhost. Otherwise, the text is selected.
 * @param {HTMLElement} element
 */
async function copy(element) {
  try {
    await navigator.clipboard.writeText(element.textContent ?? "");
    return true;
  } catch {
    getSelection()?.selectAllChildren(element);
    return false;
  }
}
