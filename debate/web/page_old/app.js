/** @import { AccessView, LoginView, SettingsView, TemplateView } from "./types.js" */

import { leaveAlerts, showAlerts } from "./alerts.js";
import { ask, attempt, complain, get, make, sendForm, whyOf } from "./api.js";
import { factList } from "./cards.js";
import { showComparison } from "./compare.js";
import { ROLES, setModel, showModels, showRoles } from "./models.js";
import { leaveRun, showRun } from "./run.js";
import "./shortcuts.js";
import { LANGUAGE, languageName, speak, t, translatePage } from "./language.js";
import { showTemplates } from "./templates.js";
import { leaveRuns, showRuns } from "./runs.js";

translatePage();

const VIEWS = /** @type {const} */ (["start", "runs", "run", "compare", "templates"]);

/** The view of the URL fragment and its run IDs. */
function destination() {
  const [, , runId] = /^#\/(runs)(?:\/([0-9a-f]{32}))?$/.exec(location.hash) ?? [];
  const [, one, other] = /^#\/compare\/([0-9a-f]{32})\/([0-9a-f]{32})$/.exec(location.hash) ?? [];
  if (runId !== undefined) return /** @type {const} */ ({ view: "run", runId });
  if (one !== undefined && other !== undefined) return /** @type {const} */ ({ view: "compare", one, other });
  if (location.hash === "#/runs") return /** @type {const} */ ({ view: "runs" });
  if (location.hash === "#/templates") return /** @type {const} */ ({ view: "templates" });
  return /** @type {const} */ ({ view: "start" });
}

/** @param {ReturnType<typeof destination>} to */
function enter(to) {
  switch (to.view) {
    case "run":
      return showRun(to.runId);
    case "runs":
      return showRuns();
    case "compare":
      return showComparison(to.one, to.other);
    case "templates":
      return showTemplates();
    default:
      showAlerts();
      return fillForm();
  }
}

async function navigate() {
  const to = destination();
  const { view } = to;
  leaveRun();
  leaveRuns();
  leaveAlerts();
  complain("");
  for (const each of VIEWS) get(each).hidden = each !== view;
  document.title = t("Diagnosis debate");
  try {
    await enter(to);
  } catch (error) {
    complain(whyOf(error));
    return;
  }
  if (location.hash !== "#/login") return get(/** @type {const} */ (`${view}-title`)).focus();
  const access = get("login").closest("details");
  if (access !== null) access.open = true;
  get("login").focus();
}

let isFilled = false;
/** @type {SettingsView["builtin_incident"] | undefined} */
let builtin;

async function fillForm() {
  if (isFilled) return;
  const form = get("start-form");
  /** @type {[SettingsView, { readonly templates: readonly TemplateView[] }]} */
  const [settings, { templates }] = await Promise.all([ask("/api/settings"), ask("/api/prompts")]);
  isFilled = true;
  const names = new Map(templates.map(({ name, description }) => [name, description]));
  for (const { name, language, description } of templates) {
    if (language === settings.prompt_language) names.set(name, description);
  }
  const template = form.elements.template;
  template.replaceChildren(...[...names.keys()].map((name) => make("option", { value: name }, name)));
  template.value = settings.prompt_template;
  const explain = () => void (get("template-note").textContent = names.get(template.value) ?? "");
  template.addEventListener("change", explain);
  explain();
  const languages = new Set([settings.prompt_language, ...templates.map(({ language }) => language)]);
  form.elements.language.replaceChildren(
    ...[...languages].map((each) => make("option", { value: each }, languageName(each))),
  );
  form.elements.language.value = settings.prompt_language;
  form.elements.mode.value = settings.mode;
  form.elements.require_approval.checked = settings.tool_approval_required;
  const { sandbox_problem: problem } = settings;
  get("sandbox-note").hidden = problem === null;
  get("sandbox-note").textContent = `${t("Programs of tools run without a sandbox")}: ${problem}`;
  showRoles(settings);
  form.dataset.maxUpload = String(settings.max_upload_bytes);
  builtin = settings.builtin_incident;
  // Providers can be slow, so the form does not wait for them.
  showModels("/api/models");
  showAccess();
}

async function showAccess() {
  /** @type {AccessView | undefined} */
  const status = await ask("/api/auth/status").catch(() => undefined);
  if (status === undefined) return;
  const facts = factList([
    [t("Provider A"), status.github_models_configured ? t("token is set") : t("no token")],
    [
      t("Provider B"),
      status.copilot_session_valid ? t("ready") : status.copilot_configured ? t("not ready") : t("no token"),
    ],
    [t("Problem"), status.last_error],
  ]);
  get("access-status").replaceChildren(...facts.children);
  const missing = status.missing_settings;
  get("setup").hidden = missing.length === 0;
  get("setup-names").replaceChildren(
    ...missing.flatMap((name, index) => [index === 0 ? "" : ", ", make("code", {}, name)]),
  );
  get("setup-login").hidden = !missing.includes("ASSIST_TOKEN");
}

get("try").addEventListener("click", () => {
  if (builtin === undefined) return;
  const form = get("start-form");
  form.elements.topic.value = builtin.topic;
  for (const [role] of ROLES) setModel(form, role, builtin.model);
  form.requestSubmit(form.querySelector(/** @type {"button"} */ ("button.primary")));
});

/** @param {Record<string, string>} fields @returns {Promise<LoginView>} */
function askLogin(fields) {
  return ask("/api/auth/copilot", { method: "POST", body: new URLSearchParams(fields) });
}

async function login() {
  let state = await askLogin({ action: "start" });
  if (state.status !== "pending") throw new Error(state.error);
  const link = make(
    "a",
    { href: state.verification_uri, target: "_blank", rel: "noreferrer" },
    state.verification_uri,
  );
  get("login-state").replaceChildren(
    t("Open "),
    link,
    t(" and enter the code {code}", { code: state.user_code }),
  );
  while (state.status === "pending") {
    await new Promise((resolve) => setTimeout(resolve, state.interval * 1000));
    state = await askLogin({ action: "check", device_code: state.device_code });
  }
  get("login-state").textContent = state.status === "authorized"
    ? t("Logged in.")
    : state.error ?? state.status;
  await showAccess();
}

get("login").addEventListener("click", () => attempt(get("login"), login));
get("refresh-models").addEventListener(
  "click",
  () => attempt(get("refresh-models"), () => showModels("/api/models/refresh", { method: "POST" })),
);

get("start-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const form = get("start-form");
  attempt(event.submitter ?? form, async () => {
    for (const { files } of form.querySelectorAll("input")) {
      const file = [...files ?? []].find(({ size }) => size > Number(form.dataset.maxUpload));
      if (file !== undefined) {
        throw new Error(
          t("“{name}” is larger than {bytes} bytes", { name: file.name, bytes: form.dataset.maxUpload }),
        );
      }
    }
    const { run_id } = await sendForm("/api/runs", form);
    location.hash = `#/runs/${run_id}`;
  });
});

get("skip").addEventListener("click", (event) => {
  event.preventDefault();
  get("main").focus();
});

const language = get("language");
language.value = LANGUAGE;
language.addEventListener("change", () => {
  // The page reloads, so the user must confirm the loss of unsent text.
  const isWritten = [...document.querySelectorAll("textarea")].some(({ value, defaultValue }) =>
    value !== defaultValue
  );
  if (isWritten && !confirm(t("Unsent text on this page will be lost. Continue?"))) {
    language.value = LANGUAGE;
  } else speak(language.value);
});

addEventListener("hashchange", navigate);
navigate();
