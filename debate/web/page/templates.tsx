import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Badge, Code, Icon, Problem, VisibleText } from "@gateway/shared/ui";
import { ask, send, whyOf } from "./api.ts";
import { t } from "./language.ts";
import { useLoaded } from "./loaded.ts";
import { useAction, useNotices } from "./notices.tsx";
import type { TemplateView } from "./views.ts";

interface Preview {
  readonly problem: string | null;
  readonly prompts: readonly {
    readonly node: string;
    readonly messages: readonly { readonly role: string; readonly content: string }[];
  }[];
}

interface Edited {
  readonly file: string;
  readonly text: string;
  /** The text before all edits. */
  readonly original: string;
}

const AGENTS: Readonly<Record<string, string>> = {
  diagnostic_agent: t("Diagnostic agent"),
  skeptic_agent: t("Skeptic"),
  diagnostic_rebuttal_agent: t("Rebuttal"),
  moderator_agent: t("Moderator"),
};

/** An editor for the instructions of the agents. The page cannot write to the server, so the result is a file. */
export function Templates(): JSX.Element {
  const { announce, complain } = useNotices();
  const [isBusy, attempt] = useAction();
  const [view] = useLoaded<{ readonly templates: readonly TemplateView[] }>("/api/prompts");
  const templates = view?.templates ?? [];
  const [chosen, setChosen] = useState("");
  const [edited, setEdited] = useState<Edited>({ file: "", text: "", original: "" });
  const [preview, setPreview] = useState<Preview>();
  /** Counts requests and edits, to discard outdated responses. */
  const turn = useRef(0);
  const latest = useRef(edited);
  latest.current = edited;
  const load = async (path: string) => {
    setChosen(path);
    const mine = ++turn.current;
    try {
      const { file, text } = await ask<Pick<Edited, "file" | "text">>(`/api/prompts/${path}`);
      if (mine !== turn.current) return;
      setEdited({ file, text, original: text });
      setPreview(undefined);
    } catch (error) {
      if (mine === turn.current) complain(whyOf(error));
    }
  };
  const first = templates[0];
  useEffect(() => {
    if (first !== undefined && chosen === "") load(pathOf(first));
  }, [first]);
  const edit = (part: Partial<Edited>) => {
    turn.current += 1;
    setEdited({ ...edited, ...part });
  };
  /** Returns whether the template can be used. */
  const check = async (): Promise<boolean> => {
    const mine = turn.current;
    const { file, text } = latest.current;
    const found = await send<Preview>("/api/prompts/preview", { file, text });
    // The result belongs to an older text.
    if (mine !== turn.current) return await check();
    setPreview(found);
    announce(found.problem === null ? t("The template is valid") : t("The template is not valid"));
    return found.problem === null;
  };
  const save = () => {
    const url = URL.createObjectURL(new Blob([latest.current.text], { type: "application/yaml" }));
    Object.assign(document.createElement("a"), { href: url, download: latest.current.file }).click();
    URL.revokeObjectURL(url);
  };
  return (
    <>
      <div class="stack intro">
        <h1 tabIndex={-1}>{t("Templates")}</h1>
        <p class="muted">
          {t(
            "A template contains the instructions of the agents. Edit one, check it, and save it as a file. Copy the file to PROMPTS_DIR on the server; a restart is not necessary.",
          )}
        </p>
      </div>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          attempt(check);
        }}
      >
        <div class="fields">
          <label>
            {t("Start from")}
            <select
              id="template-from"
              value={chosen}
              onChange={({ currentTarget: { value } }) => load(value)}
            >
              {templates.map((each) => (
                <option key={pathOf(each)} value={pathOf(each)}>
                  {`${each.name} (${each.language})${each.source === "custom" ? `, ${t("custom")}` : ""}`}
                </option>
              ))}
            </select>
          </label>
          <label>
            {t("File name")}
            <input
              id="template-file"
              autocomplete="off"
              spellcheck={false}
              value={edited.file}
              onInput={({ currentTarget: { value } }) => edit({ file: value })}
            />
          </label>
        </div>
        <label>
          {t("Template")}
          <textarea
            id="template-text"
            class="mono"
            rows={18}
            spellcheck={false}
            value={edited.text}
            defaultValue={edited.original}
            onInput={({ currentTarget: { value } }) => edit({ text: value })}
          />
        </label>
        <div class="actions">
          <button type="submit" class="primary" disabled={isBusy}>{t("Check and preview")}</button>
          <button
            type="button"
            disabled={isBusy}
            onClick={() =>
              attempt(async () => {
                if (await check()) save();
              })}
          >
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
        <section class="stack" id="template-preview" aria-labelledby="preview-title">
          <h2 id="preview-title">{t("Prompts of the first round")}</h2>
          {preview.prompts.map(({ node, messages }) => (
            <details key={node} class="fold">
              <summary>{AGENTS[node] ?? node}</summary>
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

function pathOf({ name, language }: TemplateView): string {
  return `${name}/${language}`;
}
