import { announce, ask, get, make } from "./api.js";
import { plain } from "./visible.js";
import { t } from "./words.js";

/** The roles that a model is chosen for. */
export const ROLES = [
  ["diagnostic", "Diagnostic agent"],
  ["skeptic", "Skeptic"],
  ["moderator", "Moderator"],
];

const PROVIDERS = { hub: "Provider A", assist: "Provider B", replay: "Scripted, without network" };
const OTHER = "other";

/** The fields for the models and how hard they think, as the settings have them. */
export function showRoles(settings) {
  get("roles").replaceChildren(...ROLES.flatMap(([role, title]) => fields(role, title, settings)));
}

function fields(role, title, settings) {
  const input = make("input", {
    name: `${role}_model`,
    autocomplete: "off",
    hidden: true,
    placeholder: "provider/model",
    attributes: { "aria-label": t("{role}: id of the model", { role: t(title) }) },
  });
  const pick = make("select", { className: "pick" });
  pick.dataset.preset = settings[`${role}_model`];
  pick.addEventListener("change", () => {
    input.hidden = pick.value !== OTHER;
    input.value = pick.value === OTHER ? "" : pick.value;
    if (!input.hidden) input.focus();
  });
  const efforts = ["none", "low", "medium", "high"].map((each) =>
    make("option", { value: each }, t(each === "none" ? "none_effort" : each))
  );
  const effort = make("select", { name: `${role}_reasoning_effort` }, ...efforts);
  effort.value = settings[`${role}_reasoning_effort`];
  const choice = make("div", {}, make("label", {}, t(title), pick), input);
  fill(pick, []);
  return [
    choice,
    make("label", {}, t("{role}: thinking", { role: t(title) }), effort),
  ];
}

/** Puts a model into the form, also one that no provider lists. What is shown is what is sent. */
export function setModel(form, role, id) {
  const input = form.elements[`${role}_model`];
  input.value = id;
  choose(input.closest("div").querySelector(".pick"));
}

/** Shows in the list what the field has; the field itself where the list does not have it. */
function choose(pick) {
  const input = pick.closest("div").querySelector("input");
  const isListed = [...pick.options].some(({ value }) => value === input.value && value !== OTHER);
  pick.value = isListed ? input.value : OTHER;
  input.hidden = isListed;
}

/** Asks for the models, and lets each role choose from them, by provider and with what they cost. */
export async function showModels(path, options = {}) {
  try {
    const { models, problems } = await ask(path, options);
    for (const pick of document.querySelectorAll("select.pick")) fill(pick, models);
    get("models-note").textContent = problems.map(({ provider, message }) =>
      `${nameOf(provider)}: ${message}`
    )
      .join("; ");
    announce(t("{count} models.", { count: models.length }));
  } catch (error) {
    get("models-note").textContent = error.message;
  }
}

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

function nameOf(provider) {
  return t(PROVIDERS[provider] ?? provider);
}

function priceOf({ price }) {
  return price === null || price === undefined
    ? ""
    : t(": ${input} in, ${output} out per million tokens", price);
}
