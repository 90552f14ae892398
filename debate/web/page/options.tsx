import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { VisibleText } from "@gateway/shared/ui";
import { Providers } from "./access.tsx";
import { FilePick, Pick } from "./controls.tsx";
import { languageName, t } from "./language.ts";
import { useLoaded } from "./loaded.ts";
import type { Answer, SettingsView } from "./views.ts";

const MODES = [
  ["debate", t("Debate")],
  ["sample_then_debate", t("Independent diagnoses, debated where they differ")],
] as const;

const ROLES = [
  ["diagnostic", t("Diagnostic agent")],
  ["skeptic", t("Skeptic")],
  ["moderator", t("Moderator")],
] as const;

const EFFORTS = ["none", "low", "medium", "high"].map((effort) =>
  [effort, t(effort === "none" ? "none_effort" : effort)] as const
);

/** The folded options of a new run, with the most important ones in one line. */
export function Options({ settings, problem, onLogin, onContext }: {
  readonly settings: SettingsView;
  /** The reason why a login no longer works. */
  readonly problem: string | null;
  readonly onLogin: () => void;
  readonly onContext: (files: readonly File[]) => void;
}): JSX.Element {
  const [prompts] = useLoaded<Answer<"templates">>("/api/prompts");
  const [form, setForm] = useState<FormData>();
  const { prompt_template, prompt_language } = settings;
  const templates = prompts?.templates ?? [];
  const template = String(form?.get("template") ?? prompt_template);
  const mode = form?.get("mode") ?? settings.mode;
  const asks = form?.has("require_approval") ?? settings.tool_approval_required;
  const summary = [
    mode === "debate" ? t("Debate") : t("Independent diagnoses"),
    t("template {name}", { name: template }),
    languageName(String(form?.get("language") ?? prompt_language)),
    asks ? t("asks before sensitive tools") : t("runs sensitive tools without asking"),
    ...(form?.has("pause_between_rounds") === true ? [t("pauses between rounds")] : []),
  ];
  const distinct = (first: string, others: readonly string[], nameOf = (each: string) => each) =>
    [...new Set([first, ...others])].map((each) => [each, nameOf(each)] as const);
  return (
    <details
      class="more"
      onInput={({ currentTarget: part }) => setForm(new FormData(part.closest("form") ?? undefined))}
    >
      <summary>
        <span>{t("Options")}</span>
        <span class="note">{summary.join(" · ")}</span>
      </summary>
      <div class="stack">
        <fieldset class="fields">
          <Pick label={t("Mode")} name="mode" options={MODES} picked={settings.mode} />
          <Pick
            label={t("Template")}
            name="template"
            options={distinct(prompt_template, templates.map(({ name }) => name))}
            picked={prompt_template}
          />
          <Pick
            label={t("Language of the agents")}
            name="language"
            options={distinct(prompt_language, templates.map((each) => each.language), languageName)}
            picked={prompt_language}
          />
        </fieldset>
        <p class="note">{templates.find(({ name }) => name === template)?.description}</p>
        <label class="check">
          <input type="checkbox" name="require_approval" defaultChecked={settings.tool_approval_required} />
          {t("Ask me before sensitive tools run")}
        </label>
        <label class="check">
          <input type="checkbox" name="pause_between_rounds" />
          {t("Pause between rounds for my comments")}
        </label>
        <Models settings={settings} />
        <h2>{t("Providers")}</h2>
        <Providers providers={settings.providers} onLogin={onLogin} />
        {problem !== null && (
          <p class="warning">
            <VisibleText text={problem} lines limit={600} />
          </p>
        )}
        <h2>{t("Context")}</h2>
        <div class="row">
          <FilePick label={t("Add context files")} icon="file" onPick={onContext} />
          <span class="note">{t("descriptions of your systems, as text in UTF-8")}</span>
        </div>
        <fieldset class="fields">
          <label>
            {t("Project directory")}
            <input
              name="project_path"
              autocomplete="off"
              placeholder={t("on the server, inside its allowed roots")}
            />
          </label>
          <label>
            {t("Patterns")}
            <input name="include_patterns" autocomplete="off" placeholder="README*, src/**/*" />
          </label>
        </fieldset>
        <label class="check">
          <input type="checkbox" name="no_redact_context" />
          {t("Send secrets in files to the models unmasked")}
        </label>
      </div>
    </details>
  );
}

/** The model and the reasoning effort of each role. The list can be late, because providers can be slow. */
function Models({ settings }: { readonly settings: SettingsView }): JSX.Element {
  const [catalogue] = useLoaded<Answer<"models">>("/api/models");
  return (
    <section class="stack" aria-labelledby="models-title">
      <h2 id="models-title">{t("Models")}</h2>
      {catalogue?.problems.map(({ provider, message }) => (
        <p key={provider} class="warning" role="status">
          <VisibleText text={`${provider}: ${message}`} lines limit={600} />
        </p>
      ))}
      <datalist id="models">
        {catalogue?.models.map(({ id, name, price }) => (
          <option key={id} value={id}>
            {price === null
              ? name
              : t("{name} · ${input} in, ${output} out per million tokens", { name, ...price })}
          </option>
        ))}
      </datalist>
      {ROLES.map(([role, title]) => (
        <fieldset key={role} class="fields">
          <label>
            {title}
            <input
              name={`${role}_model`}
              list="models"
              autocomplete="off"
              placeholder={t("Default: {model}", { model: settings[`${role}_model`] })}
            />
          </label>
          <Pick
            label={t("{role}: reasoning", { role: title })}
            name={`${role}_reasoning_effort`}
            options={EFFORTS}
            picked={settings[`${role}_reasoning_effort`]}
          />
        </fieldset>
      ))}
    </section>
  );
}
