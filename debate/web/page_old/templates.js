import { announce, ask, attempt, complain, get, make, send, whyOf } from "./api.js";
import { codeBlock } from "./code.js";
import { agentName } from "./evidence.js";
import { visible } from "./visible.js";
import { t } from "./language.js";

/** @import { TemplateView } from "./types.js" */

let isFilled = false;

/** Shows the templates as a start for a new one. */
export async function showTemplates() {
  if (isFilled) return;
  /** @type {{ readonly templates: readonly TemplateView[] }} */
  const { templates } = await ask("/api/prompts");
  get("template-from").replaceChildren(
    ...templates.map(({ name, language, source }) =>
      make(
        "option",
        { value: `${name}/${language}` },
        `${name}.${language}${source === "custom" ? " *" : ""}`,
      )
    ),
  );
  isFilled = true;
  await load();
}

/** Counts requests and edits, to discard outdated responses. */
let turn = 0;

async function load() {
  const mine = ++turn;
  /** @type {{ readonly file: string, readonly text: string }} */
  const { file, text } = await ask(`/api/prompts/${get("template-from").value}`);
  if (mine !== turn) return;
  get("template-file").value = file;
  get("template-text").value = text;
  get("template-problem").textContent = "";
  get("template-preview").replaceChildren();
}

/**
 * @typedef {object} Preview
 * @property {string | null} problem
 * @property {readonly { node: string, messages: readonly { role: string, content: string }[] }[]} prompts
 */

/** @returns {Promise<boolean>} whether it can be used */
async function preview() {
  const mine = turn;
  const body = { file: get("template-file").value, text: get("template-text").value };
  /** @type {Preview} */
  const { problem, prompts } = await send("/api/prompts/preview", body);
  // The result belongs to an older text.
  if (mine !== turn) return await preview();
  get("template-problem").replaceChildren(...visible(problem ?? ""));
  get("template-preview").replaceChildren(
    ...prompts.map(({ node, messages }) =>
      make(
        "details",
        {},
        make("summary", {}, agentName(node)),
        ...messages.flatMap(({ role, content }) => [
          make("p", { className: "note" }, role),
          codeBlock(...visible(content)),
        ]),
      )
    ),
  );
  announce(problem === null ? t("The template can be used.") : t("The template cannot be used."));
  return problem === null;
}

/** The operator copies this file to PROMPTS_DIR. The page cannot write to the server. */
function save() {
  const url = URL.createObjectURL(new Blob([get("template-text").value], { type: "application/yaml" }));
  const link = make("a", { href: url, download: get("template-file").value });
  link.click();
  URL.revokeObjectURL(url);
}

for (const each of [get("template-file"), get("template-text")]) {
  each.addEventListener("input", () => turn += 1);
}
// A new choice replaces a pending one.
get("template-from").addEventListener("change", () => load().catch((error) => complain(whyOf(error))));
get("template-check").addEventListener("click", () => attempt(get("template-check"), preview));
get("template-save").addEventListener("click", () =>
  attempt(get("template-save"), async () => {
    if (await preview()) save();
  }));
