import type { JSX } from "preact";
import { useRef, useState } from "preact/hooks";
import { Icon } from "@gateway/shared/ui";
import { Providers } from "./access.tsx";
import { Check, Pick } from "./controls.tsx";
import type { Files } from "./files.tsx";
import { languageName, t } from "./language.ts";
import { useLoaded } from "./loaded.ts";
import { Models } from "./models.tsx";
import type { AccessView, SettingsView, TemplateView } from "./views.ts";

const MODES = [
  ["debate", t("Debate")],
  ["sample_then_debate", t("Independent diagnoses, debated where they differ")],
] as const;

/** The folded options of a new run, with the chosen values in one line. */
export function Options({ settings, access, files, onLogin }: {
  readonly settings: SettingsView;
  readonly access: AccessView | undefined;
  readonly files: Files;
  readonly onLogin: () => void;
}): JSX.Element {
  const [prompts] = useLoaded<{ readonly templates: readonly TemplateView[] }>("/api/prompts");
  const part = useRef<HTMLDetailsElement>(null);
  const [form, setForm] = useState<FormData>();
  const [models, setModels] = useState<readonly string[]>([]);
  const { prompt_template, prompt_language } = settings;
  const templates = prompts?.templates ?? [];
  const chosen = (name: string, fallback: string) => String(form?.get(name) ?? fallback);
  const template = chosen("template", prompt_template);
  const language = chosen("language", prompt_language);
  const same = templates.filter(({ name }) => name === template);
  const { description } = same.find((each) => each.language === language) ?? same[0] ?? {};
  const summary = [
    chosen("mode", settings.mode) === "debate" ? t("Debate") : t("Independent diagnoses"),
    t("template {name}", { name: template }),
    languageName(language),
    (form?.has("require_approval") ?? settings.tool_approval_required)
      ? t("asks before sensitive tools")
      : t("runs sensitive tools without asking"),
    form?.has("pause_between_rounds") === true ? t("pauses between rounds") : "",
    ...models,
    chosen("project_path", ""),
  ];
  return (
    <details
      ref={part}
      onInput={() => setForm(new FormData(part.current?.closest("form") ?? undefined))}
    >
      <summary>
        <span>{t("Options")}</span>
        <span class="note">{summary.filter((each) => each !== "").join(" · ")}</span>
      </summary>
      <div class="stack">
        <fieldset class="fields">
          <Pick label={t("Mode")} name="mode" options={MODES} picked={settings.mode} />
          <Pick
            label={t("Template")}
            name="template"
            note="template-note"
            options={distinct(prompt_template, templates.map(({ name }) => name)).map((each) => [each, each])}
            picked={prompt_template}
          />
          <Pick
            label={t("Language of the agents")}
            name="language"
            options={distinct(prompt_language, templates.map((each) => each.language))
              .map((each) => [each, languageName(each)])}
            picked={prompt_language}
          />
        </fieldset>
        <p id="template-note" class="note">{description}</p>
        <Check
          label={t("Ask me before sensitive tools run")}
          name="require_approval"
          isOn={settings.tool_approval_required}
        />
        <Check label={t("Pause between rounds for my comments")} name="pause_between_rounds" />
        <Models settings={settings} onChange={setModels} />
        {access !== undefined && <Providers settings={settings} access={access} onLogin={onLogin} />}
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
        <Check label={t("Send secrets in files to the models unmasked")} name="no_redact_context" />
      </div>
    </details>
  );
}

function distinct(first: string, others: readonly string[]): readonly string[] {
  return [...new Set([first, ...others])];
}
