import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { Card, VisibleText } from "@gateway/shared/ui";
import type { Hypothesis } from "../../engine/graph/state.ts";
import { send } from "./api.ts";
import { formatClock } from "./format.ts";
import { t } from "./language.ts";
import { useNow } from "./loaded.ts";
import { useAction } from "./notices.tsx";
import { timeLeft } from "./summary.ts";

const MAX_SHOWN = 160;

/** The pause between rounds: a comment, and decisions on hypotheses. */
export function CommentForm({ runId, since, seconds, hypotheses }: {
  readonly runId: string;
  readonly since: string;
  readonly seconds: number | undefined;
  readonly hypotheses: readonly Hypothesis[];
}): JSX.Element {
  const left = timeLeft(since, seconds, useNow(1000));
  // The agents do not speak during a pause, so the list of its begin stays true.
  const [offered] = useState(hypotheses);
  const [isBusy, attempt] = useAction();
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    const form = event.currentTarget;
    if (!(form instanceof HTMLFormElement)) return;
    const isSkipped = event.submitter instanceof HTMLButtonElement && event.submitter.value === "skip";
    const body = isSkipped ? { comment: "", changes: [] } : chosenIn(form);
    attempt(() => send(`/api/runs/${runId}/comment`, body));
  };
  return (
    <Card
      id="waiting"
      tone="warn"
      title={t("The debate waits for you")}
      actions={left !== undefined &&
        <span class="count note" role="timer">{t("{time} left", { time: formatClock(left) })}</span>}
    >
      <form id="comment-form" onSubmit={submit}>
        <label>
          {t("Comment")}
          <textarea name="comment" rows={3} maxLength={20_000} />
        </label>
        <details id="steer" class="more">
          <summary>{t("Pin, drop or add hypotheses")}</summary>
          <ul>{offered.map((each) => <Steered key={each.id} hypothesis={each} />)}</ul>
          <label>
            {t("Hypotheses to add")}
            <span class="note">{t("One per line. They need evidence like any other.")}</span>
            <textarea name="added" rows={2} />
          </label>
        </details>
        <div class="actions">
          <button type="submit" class="primary" value="send" disabled={isBusy}>
            {t("Send and continue")}
          </button>
          <button type="submit" class="quiet" value="skip" formNoValidate disabled={isBusy}>
            {t("Continue without a comment")}
          </button>
        </div>
      </form>
    </Card>
  );
}

function Steered({ hypothesis: { id, text, state } }: { readonly hypothesis: Hypothesis }): JSX.Element {
  return (
    <li class="row">
      <span>
        <b>
          <VisibleText text={id} />
        </b>
        {` (${t(state)}) `}
        <VisibleText text={text} limit={MAX_SHOWN} lines />
      </span>
      <select data-id={id} aria-label={t("Decision on {id}", { id })}>
        <option value="">{t("Leave it to the agents")}</option>
        <option value="pin">{t("Pin: examine it further")}</option>
        <option value="drop">{t("Drop: do not return to it")}</option>
      </select>
    </li>
  );
}

/** The content of the form as a request body. */
function chosenIn(form: HTMLFormElement) {
  const fields = new FormData(form);
  const linesOf = (name: string) => String(fields.get(name) ?? "").split("\n").map((line) => line.trim());
  const chosen = [...form.querySelectorAll("select")].filter(({ value }) => value !== "")
    .map(({ value, dataset }) => ({ kind: value, id: dataset["id"] }));
  const added = linesOf("added").filter((text) => text !== "").map((text) => ({ kind: "add", text }));
  return { comment: String(fields.get("comment") ?? ""), changes: [...chosen, ...added] };
}
