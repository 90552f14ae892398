import type { JSX } from "preact";
import { Code, VisibleText } from "@gateway/shared/ui";
import { sendForm } from "./api.ts";
import { formatTime } from "./format.ts";
import type { FollowedRun } from "./follow.ts";
import { t } from "./language.ts";
import { useAction } from "./notices.tsx";
import type { RunView } from "./views.ts";

/** The facts of a run and its incident as described. */
export function About({ record }: { readonly record: RunView }): JSX.Element {
  const { template, language, parent_run_id: parent = "" } = record;
  const facts = [
    [t("Started"), formatTime(record.timestamp)],
    [t("Imported"), record.imported ? formatTime(record.imported_at) : ""],
    [t("Template"), template ? `${template} (${language})` : ""],
  ] as const;
  return (
    <details class="more" id="about">
      <summary>{t("About this run")}</summary>
      <dl class="facts">
        {facts.filter(([, value]) => value !== "").map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>
              <VisibleText text={value} lines />
            </dd>
          </div>
        ))}
        {parent && (
          <div>
            <dt>{t("Resumes")}</dt>
            <dd>
              <a href={`#/runs/${encodeURIComponent(parent)}`}>
                <VisibleText text={parent.slice(0, 8)} />
              </a>
            </dd>
          </div>
        )}
      </dl>
      <h3>{t("The incident as described")}</h3>
      <Code>
        <VisibleText text={record.topic ?? ""} lines />
      </Code>
    </details>
  );
}

/** A new run that begins with what this one found. */
export function Resume({ run: { record, settings } }: { readonly run: FollowedRun }): JSX.Element {
  const [isBusy, attempt] = useAction();
  const isOptional = record.status === "error" || record.status === "interrupted";
  const submit = async (form: HTMLFormElement) => {
    const { run_id } = await sendForm<{ run_id: string }>(`/api/runs/${record.run_id}/resume`, form);
    location.hash = `#/runs/${run_id}`;
  };
  return (
    <details class="more">
      <summary>{t("Continue with new evidence")}</summary>
      <form
        id="resume-form"
        onSubmit={(event) => {
          event.preventDefault();
          const form = event.currentTarget;
          attempt(() => submit(form));
        }}
      >
        <label>
          {t("New evidence")}
          {isOptional && <span class="note">{t("optional after a failed run")}</span>}
          <textarea name="new_evidence" rows={4} />
        </label>
        <label>
          {t("Files")}
          <input type="file" name="evidence_file" multiple />
        </label>
        <label class="check">
          <input type="checkbox" name="require_approval" defaultChecked={settings.tool_approval_required} />
          {t("Ask me before sensitive tools run")}
        </label>
        <label class="check">
          <input type="checkbox" name="pause_between_rounds" />
          {t("Pause between rounds for my comments")}
        </label>
        <p class="actions">
          <button type="submit" class="primary" disabled={isBusy}>{t("Start a new run from here")}</button>
        </p>
      </form>
    </details>
  );
}
