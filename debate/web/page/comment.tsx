import type { JSX } from "preact";
import { Card, VisibleText } from "@gateway/shared/ui";
import type { Hypothesis } from "../../engine/graph/state.ts";
import { send } from "./api.ts";
import { t } from "./language.ts";
import { useAction } from "./notices.tsx";
import { TimeLeft } from "./part.tsx";

/** The pause between rounds: a comment, and decisions on hypotheses. */
export function CommentForm({ runId, since, seconds, hypotheses }: {
  readonly runId: string;
  readonly since: string;
  readonly seconds: number;
  readonly hypotheses: readonly Hypothesis[];
}): JSX.Element {
  const [isBusy, attempt] = useAction();
  const answer = (body: object) => attempt(() => send(`/api/runs/${runId}/comment`, body));
  return (
    <Card
      id="waiting"
      tone="warn"
      title={t("The debate waits for you")}
      actions={<TimeLeft since={since} seconds={seconds} />}
    >
      <form
        id="comment-form"
        onSubmit={(event) => {
          event.preventDefault();
          answer(chosenIn(event.currentTarget));
        }}
      >
        <label>
          {t("Comment")}
          <textarea name="comment" rows={3} maxLength={20_000} />
        </label>
        <details id="steer" class="more">
          <summary>{t("Pin, drop or add hypotheses")}</summary>
          <ul>
            {hypotheses.map(({ id, text, state }) => (
              <li key={id} class="row">
                <span>
                  <b>
                    <VisibleText text={id} />
                  </b>
                  {` (${t(state)}) `}
                  <VisibleText text={text} limit={160} lines />
                </span>
                <select data-id={id} aria-label={t("Decision on {id}", { id })}>
                  <option value="">{t("Leave it to the agents")}</option>
                  <option value="pin">{t("Pin: examine it further")}</option>
                  <option value="drop">{t("Drop: do not return to it")}</option>
                </select>
              </li>
            ))}
          </ul>
          <label>
            {t("Hypotheses to add")}
            <span class="note">{t("One per line. They need evidence like any other.")}</span>
            <textarea name="added" rows={2} />
          </label>
        </details>
        <div class="actions">
          <button type="submit" class="primary" disabled={isBusy}>{t("Send and continue")}</button>
          <button
            type="button"
            class="quiet"
            disabled={isBusy}
            onClick={() => answer({ comment: "", changes: [] })}
          >
            {t("Continue without a comment")}
          </button>
        </div>
      </form>
    </Card>
  );
}

/** The content of the form as a request body. */
function chosenIn(form: HTMLFormElement): object {
  const fields = new FormData(form);
  const added = String(fields.get("added")).split("\n").map((line) => line.trim());
  const changes = [
    ...[...form.querySelectorAll("select")].map(({ value, dataset }) => ({ kind: value, id: dataset["id"] })),
    ...added.map((text) => ({ kind: text && "add", text })),
  ];
  return { comment: String(fields.get("comment")), changes: changes.filter(({ kind }) => kind !== "") };
}
