import type { JSX } from "preact";
import { Code, VisibleText } from "@gateway/shared/ui";
import { sendForm } from "./api.ts";
import { formatDuration, formatTime } from "./format.ts";
import type { FollowedRun } from "./follow.ts";
import { LANGUAGE, t } from "./language.ts";
import { useAction } from "./notices.tsx";
import { dollarsOf, modelsOf } from "./summary.ts";

/** The facts of a run and its incident as described. */
export function About({ run: { record } }: { readonly run: FollowedRun }): JSX.Element {
  const { models, token_totals, cost_estimate, timestamp, duration_seconds: seconds } = record;
  const usd = cost_estimate?.total_usd;
  const facts = [
    [t("Started"), formatTime(timestamp)],
    [t("Duration"), typeof seconds === "number" ? formatDuration(seconds) : ""],
    [t("Models"), modelsOf(models)],
    [t("Template"), record.template ? `${record.template} (${record.language})` : ""],
    [
      t("Origin"),
      record.imported ? `${t("imported, not checked here")} ${formatTime(record.imported_at)}` : "",
    ],
    [t("Tokens"), token_totals?.total?.total_tokens?.toLocaleString(LANGUAGE) ?? ""],
    [t("Cost"), typeof usd === "number" ? dollarsOf(usd) : ""],
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
        {record.parent_run_id && (
          <div>
            <dt>{t("Resumes")}</dt>
            <dd>
              <ParentLink id={record.parent_run_id} />
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

function ParentLink({ id }: { readonly id: string }): JSX.Element {
  return /^[0-9a-f]{32}$/.test(id)
    ? <a href={`#/runs/${id}`}>{id.slice(0, 8)}</a>
    : <VisibleText text={id} />;
}

/** A new run that begins with what this one found. */
export function Resume({ run: { record, settings } }: { readonly run: FollowedRun }): JSX.Element {
  const [isBusy, attempt] = useAction();
  const isOptional = record.status === "error" || record.status === "interrupted";
  return (
    <details class="more">
      <summary>{t("Continue with new evidence")}</summary>
      <form
        id="resume-form"
        onSubmit={(event) => {
          event.preventDefault();
          const form = event.currentTarget;
          attempt(async () => {
            const { run_id } = await sendForm<{ run_id: string }>(`/api/runs/${record.run_id}/resume`, form);
            location.hash = `#/runs/${run_id}`;
          });
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
