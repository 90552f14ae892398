/** @import { ModelView, SettingsView, StartForm } from "./types.js" */

import { announce, ask, get, make, whyOf } from "./api.js";
import { plain } from "./visible.js";
import { t } from "./language.js";

/**
 * The roles that need a model.
 * @type {readonly (readonly [string, string])[]}
 */
export const ROLES = [
  ["diagnostic", "Diagnostic agent"],
  ["skeptic", "Skeptic"],
  ["moderator", "Moderator"],
];

/** @type {Readonly<Record<string, string>>} */
const PROVIDERS = { hub: "Provider A", assist: "Provider B", replay: "Scripted, without network" };
const OTHER = "other";

/**
 * The fields for model and reasoning effort with the values of the settings.
 * @param {SettingsView} settings
 */
export function showRoles(settings) {
  get("roles").replaceChildren(...ROLES.flatMap(([role, title]) => fields(role, title, settings)));
}

/** @param {string} role @param {string} title @param {SettingsView} settings */
function fields(role, title, settings) {
  const input = make("input", {
    name: `${role}_model`,
    autocomplete: "off",
    hidden: true,
    placeholder: "provider/model",
    attributes: { "aria-label": t("{role}: id of the model", { role: t(title) }) },
  });
  const pick = make("select", { className: "pick" });
  pick.dataset.preset = String(settings[`${role}_model`]);
  pick.addEventListener("change", () => {
    input.hidden = pick.value !== OTHER;
    input.value = pick.value === OTHER ? "" : pick.value;
    if (!input.hidden) input.focus();
  });
  const efforts = ["none", "low", "medium", "high"].map((each) =>
    make("option", { value: each }, t(each === "none" ? "none_effort" : each))
  );
  const effort = make("select", { name: `${role}_reasoning_effort` }, ...efforts);
  effort.value = String(settings[`${role}_reasoning_effort`]);
  const choice = make("div", {}, make("label", {}, t(title), pick), input);
  fill(pick, []);
  return [
    choice,
    make("label", {}, t("{role}: thinking", { role: t(title) }), effort),
  ];
}

/**
 * Sets the model of a role, which may be missing in the lists of the providers.
 * @param {StartForm} form
 * @param {string} role
 * @param {string} id
 */
export function setModel(form, role, id) {
  const input = form.elements.namedItem(`${role}_model`);
  if (!(input instanceof HTMLInputElement)) return;
  input.value = id;
  const pick = input.closest("div")?.querySelector(".pick");
  if (pick instanceof HTMLSelectElement) choose(pick);
}

/**
 * Selects the model of the field in the list. Shows the field if the list lacks the model.
 * @param {HTMLSelectElement} pick
 */
function choose(pick) {
  const input = pick.closest("div")?.querySelector("input");
  if (input === null || input === undefined) return;
  const isListed = [...pick.options].some(({ value }) => value === input.value && value !== OTHER);
  pick.value = isListed ? input.value : OTHER;
  input.hidden = isListed;
}

/** @typedef {{ readonly models: readonly ModelView[], readonly problems: readonly Problem[] }} ModelsView */
/** @typedef {{ readonly provider: string, readonly message: string }} Problem */

/**
 * Loads the models and lists them for each role by provider, with their prices.
 * @param {string} path
 * @param {RequestInit} [options]
 */
export async function showModels(path, options = {}) {
  try {
    /** @type {ModelsView} */
    const { models, problems } = await ask(path, options);
    for (const pick of document.querySelectorAll(/** @type {"select"} */ ("select.pick"))) fill(pick, models);
    get("models-note").textContent = problems.map(({ provider, message }) =>
      `${nameOf(provider)}: ${message}`
    )
      .join("; ");
    announce(t("{count} models.", { count: models.length }));
  } catch (error) {
    get("models-note").textContent = whyOf(error);
  }
}

/** @param {HTMLSelectElement} pick @param {readonly ModelView[]} models */
function fill(pick, models) {
  const wantsOther = pick.value === OTHER;
  const providers = [...new Set(models.map(({ provider }) => provider))];
  pick.replaceChildren(
    make("option", { value: "" }, t("of the settings: {model}", { model: pick.dataset.preset })),
    ...providers.map((provider) =>
      make(
        "optgroup",
        { label: nameOf(provider) },
        ...models.filter((each) => each.provider === provider).map((each) =>
          make("option", { value: each.id }, `${plain(each.name)}${priceOf(each)}`)
        ),
      )
    ),
    make("option", { value: OTHER }, t("another one …")),
  );
  if (wantsOther) pick.value = OTHER;
  else choose(pick);
}

/** @param {string} provider */
function nameOf(provider) {
  return t(PROVIDERS[provider] ?? provider);
}

/** @param {ModelView} model */
function priceOf({ price }) {
  return price === null || price === undefined ? "" : t(": ${input} in, ${output} out per million tokens", {
    input: inCents(price.input),
    output: inCents(price.output),
  });
}

/**
 * Formats a price with at least two decimals. Fractions of a cent are kept.
 * @param {number} price
 */
function inCents(price) {
  return price.toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: 6 });
}
