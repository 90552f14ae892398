import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { Icon } from "@gateway/shared/ui";
import { Providers } from "./access.tsx";
import type { Files } from "./files.tsx";
import { languageName, t } from "./language.ts";
import { useLoaded } from "./loaded.ts";
import { Models } from "./models.tsx";
import type { AccessView, SettingsView, TemplateView } from "./views.ts";

/** The choices of the user. A missing one has the value of the settings. */
interface Choices {
  readonly mode?: string;
  readonly template?: string;
  readonly language?: string;
  readonly requireApproval?: boolean;
  readonly pauses?: boolean;
  readonly project?: string;
  readonly models?: readonly string[];
}

const MODES: Readonly<Record<string, string>> = {
  debate: t("Debate"),
  sample_then_debate: t("Independent diagnoses, debated where they differ"),
};

/** The folded options of a new run, with the chosen values in one line. */
export function Options({ settings, access, files, onLogin }: {
  readonly settings: SettingsView | undefined;
  readonly access: AccessView | undefined;
  readonly files: Files;
  readonly onLogin: () => void;
}): JSX.Element {
  const [prompts] = useLoaded<{ readonly templates: readonly TemplateView[] }>("/api/prompts");
  const [own, setOwn] = useState<Choices>({});
  const change = (part: Choices) => setOwn((before) => ({ ...before, ...part }));
  const chosen = {
    mode: settings?.mode ?? "debate",
    template: settings?.prompt_template ?? "",
    language: settings?.prompt_language ?? "",
    requireApproval: settings?.tool_approval_required ?? true,
    pauses: false,
    ...own,
  };
  const templates = prompts?.templates ?? [];
  const names = [...new Set([chosen.template, ...templates.map(({ name }) => name)])];
  const languages = [...new Set([chosen.language, ...templates.map(({ language }) => language)])];
  const same = templates.filter(({ name }) => name === chosen.template);
  const description = (same.find(({ language }) => language === chosen.language) ?? same[0])?.description;
  return (
    <details class="options">
      <summary>
        <span>{t("Options")}</span>
        <span class="note">{settings === undefined ? "" : summaryOf(chosen)}</span>
      </summary>
      <div class="stack">
        <fieldset class="fields">
          <label>
            {t("Mode")}
            <select
              name="mode"
              value={chosen.mode}
              onChange={({ currentTarget: { value } }) => change({ mode: value })}
            >
              {Object.entries(MODES).map(([mode, name]) => <option key={mode} value={mode}>{name}</option>)}
            </select>
          </label>
          <label>
            {t("Template")}
            <select
              name="template"
              value={chosen.template}
              aria-describedby="template-note"
              onChange={({ currentTarget: { value } }) => change({ template: value })}
            >
              {names.map((name) => <option key={name} value={name}>{name}</option>)}
            </select>
          </label>
          <label>
            {t("Language of the agents")}
            <select
              name="language"
              value={chosen.language}
              onChange={({ currentTarget: { value } }) => change({ language: value })}
            >
              {languages.map((each) => (
                <option key={each} value={each}>{each === "" ? "" : languageName(each)}</option>
              ))}
            </select>
          </label>
          <p id="template-note" class="note">{description}</p>
        </fieldset>
        <label class="check">
          <input
            type="checkbox"
            name="require_approval"
            checked={chosen.requireApproval}
            onChange={({ currentTarget: { checked } }) => change({ requireApproval: checked })}
          />
          {t("Ask me before sensitive tools run")}
        </label>
        <label class="check">
          <input
            type="checkbox"
            name="pause_between_rounds"
            checked={chosen.pauses}
            onChange={({ currentTarget: { checked } }) => change({ pauses: checked })}
          />
          {t("Pause between rounds for my comments")}
        </label>
        {settings !== undefined && <Models settings={settings} onChange={(models) => change({ models })} />}
        {settings !== undefined && access !== undefined &&
          <Providers settings={settings} access={access} onLogin={onLogin} />}
        <h2>{t("Context")}</h2>
        <div class="row">
          <label class="button">
            <Icon name="file" />
            {t("Add context files")}
            <input
              class="unseen"
              type="file"
              name="base_context"
              multiple
              ref={files.context}
              onChange={files.update}
            />
          </label>
          <span class="note">{t("descriptions of your systems, as text in UTF-8")}</span>
        </div>
        <fieldset class="fields">
          <label>
            {t("Project directory")}
            <input
              name="project_path"
              autocomplete="off"
              placeholder={t("on the server, inside its allowed roots")}
              onInput={({ currentTarget: { value } }) => change({ project: value })}
            />
          </label>
          <label>
            {t("Patterns")}
            <input name="include_patterns" autocomplete="off" placeholder="README*, src/**/*" />
          </label>
          <label>
            {t("Maximum files")}
            <input type="number" name="max_files" min={1} max={1000} defaultValue="20" />
          </label>
          <label>
            {t("Characters per file")}
            <input type="number" name="max_chars_per_file" min={1} max={1000000} defaultValue="12000" />
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

/** The chosen values in one line. */
function summaryOf(
  { mode, template, language, requireApproval, pauses, project = "", models = [] }:
    & Choices
    & { readonly mode: string; readonly template: string; readonly language: string },
): string {
  return [
    mode === "debate" ? t("Debate") : t("Independent diagnoses"),
    t("template {name}", { name: template }),
    languageName(language),
    requireApproval ? t("asks before sensitive tools") : t("runs sensitive tools without asking"),
    pauses ? t("pauses between rounds") : "",
    models.join(", "),
    project,
  ].filter((each) => each !== "").join(" · ");
}
