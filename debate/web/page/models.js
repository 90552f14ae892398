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
  fill(pick, []);
  const efforts = ["none", "low", "medium", "high"].map((each) =>
    make("option", { value: each }, t(each === "none" ? "none_effort" : each))
  );
  const effort = make("select", { name: `${role}_reasoning_effort` }, ...efforts);
  effort.value = settings[`${role}_reasoning_effort`];
  return [
    make("div", {}, make("label", {}, t(title), pick), input),
    make("label", {}, t("{role}: thinking", { role: t(title) }), effort),
  ];
}

/** Puts a model into the form, also one that no provider lists. */
export function setModel(form, role, id) {
  form.elements[`${role}_model`].value = id;
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
  const chosen = pick.value;
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
  if ([...pick.options].some(({ value }) => value === chosen)) pick.value = chosen;
}

function nameOf(provider) {
  return t(PROVIDERS[provider] ?? provider);
}

function priceOf({ price }) {
  return price === null || price === undefined
    ? ""
    : t(": ${input} in, ${output} out per million tokens", price);
}
