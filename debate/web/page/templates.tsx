import type { JSX } from "preact";
import { useRef, useState } from "preact/hooks";
import { Badge, Code, Icon, Problem, VisibleText } from "@gateway/shared/ui";
import { send } from "./api.ts";
import { Pick } from "./controls.tsx";
import { agentName } from "./evidence.tsx";
import { mayLoseText, t } from "./language.ts";
import { useLoaded } from "./loaded.ts";
import { useAction, useNotices } from "./notices.tsx";
import type { Answer } from "./views.ts";

/** An editor for the instructions of the agents. The page cannot write to the server, so the result is a file. */
export function Templates(): JSX.Element {
  const [view] = useLoaded<Answer<"templates">>("/api/prompts");
  const [chosen, setChosen] = useState("");
  const options = (view?.templates ?? []).map(({ name, language, source }) =>
    [`${name}/${language}`, `${name} (${language})${source === "custom" ? `, ${t("custom")}` : ""}`] as const
  );
  const path = chosen || options[0]?.[0];
  return (
    <>
      <div class="stack tight">
        <h1 tabIndex={-1}>{t("Templates")}</h1>
        <p class="muted">
          {t(
            "A template contains the instructions of the agents. Edit one, check it, and save it as a file. Copy the file to PROMPTS_DIR on the server; a restart is not necessary.",
          )}
        </p>
      </div>
      {path !== undefined && (
        <>
          <Pick
            label={t("Start from")}
            options={options}
            picked={path}
            onPick={(next) => mayLoseText() && setChosen(next)}
          />
          <Editor key={path} path={path} />
        </>
      )}
    </>
  );
}

/** The editor of one template. Its key is the path, so a late answer belongs to a removed editor. */
function Editor({ path }: { readonly path: string }): JSX.Element | null {
  const { announce } = useNotices();
  const [isBusy, attempt] = useAction();
  const [loaded] = useLoaded<Answer<"template">>(`/api/prompts/${path}`);
  const [preview, setPreview] = useState<Answer<"preview">>();
  const form = useRef<HTMLFormElement>(null);
  const check = (isSaved: boolean) =>
    attempt(async () => {
      const { file, text } = Object.fromEntries(new FormData(form.current ?? undefined));
      const found = await send<Answer<"preview">>("/api/prompts/preview", { file, text });
      setPreview(found);
      announce(found.problem === null ? t("The template is valid") : t("The template is not valid"));
      if (!isSaved || found.problem !== null) return;
      const url = URL.createObjectURL(new Blob([String(text)], { type: "application/yaml" }));
      Object.assign(document.createElement("a"), { href: url, download: file }).click();
      URL.revokeObjectURL(url);
    });
  if (loaded === undefined) return null;
  return (
    <>
      <form
        ref={form}
        onInput={() => setPreview(undefined)}
        onSubmit={(event) => {
          event.preventDefault();
          check(false);
        }}
      >
        <label>
          {t("File name")}
          <input
            name="file"
            autocomplete="off"
            spellcheck={false}
            readOnly={isBusy}
            defaultValue={loaded.file}
          />
        </label>
        <label>
          {t("Template")}
          <textarea
            id="template-text"
            name="text"
            class="mono"
            rows={18}
            spellcheck={false}
            readOnly={isBusy}
            defaultValue={loaded.text}
          />
        </label>
        <div class="actions">
          <button type="submit" class="primary" disabled={isBusy}>{t("Check and preview")}</button>
          <button type="button" disabled={isBusy} onClick={() => check(true)}>
            <Icon name="download" />
            {t("Save as a file")}
          </button>
          {preview?.problem === null && <Badge tone="good" icon="check">{t("Valid")}</Badge>}
        </div>
      </form>
      {preview !== undefined && preview.problem !== null && (
        <Problem>
          <VisibleText text={preview.problem} lines />
        </Problem>
      )}
      {preview !== undefined && preview.prompts.length > 0 && (
        <section class="folds stack" id="template-preview" aria-labelledby="preview-title">
          <h2 id="preview-title">{t("Prompts of the first round")}</h2>
          {preview.prompts.map(({ node, messages }) => (
            <details key={node} class="more">
              <summary>{agentName(node)}</summary>
              {messages.map(({ role, content }, index) => (
                <div key={index}>
                  <p class="note">{role}</p>
                  <Code>
                    <VisibleText text={content} lines />
                  </Code>
                </div>
              ))}
            </details>
          ))}
        </section>
      )}
    </>
  );
}
