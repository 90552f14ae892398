import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { VisibleText } from "@gateway/shared/ui";
import { send } from "./api.ts";
import { Allowed } from "./approvals.tsx";
import type { FollowedRun } from "./follow.ts";
import { t } from "./language.ts";
import { useAction } from "./notices.tsx";
import { CAN_NOTIFY, chooseNotice, wantsNotice } from "./notify.ts";
import type { Answer } from "./views.ts";

/** More text is out of the box. */
const MAX_LIVE = 800;

/** The end of the text that arrives, with the options of a run in progress. */
export function Progress({ run: { record, summary, live } }: { readonly run: FollowedRun }): JSX.Element {
  const { doing, allowed, approvals, pausedAt } = summary;
  const text = live?.text.slice(-MAX_LIVE) ?? "";
  return (
    <section class="card live" aria-labelledby="live-title">
      <h2 id="live-title" class="unseen">{t("Progress")}</h2>
      {approvals.size === 0 && pausedAt === undefined && (
        <div class="tail stack">
          <p>
            {text === ""
              ? <span class="note">{t(doing?.tool ? "A tool is running …" : "Waiting for text …")}</span>
              : <VisibleText text={text} lines />}
          </p>
        </div>
      )}
      <Options runId={record.run_id} />
      <Allowed runId={record.run_id} calls={[...allowed.values()]} />
    </section>
  );
}

/** The options of a run that can change while it runs. Until they are known, they cannot change. */
function Options({ runId }: { readonly runId: string }): JSX.Element {
  const [options, setOptions] = useState<Answer<"options">>();
  const [mayNotify, setNotify] = useState(wantsNotice());
  const [isBusy, attempt] = useAction();
  const change = async (changed: Partial<Answer<"options">>) => {
    // The box keeps the user's choice unless the server rejects it.
    setOptions(options && { ...options, ...changed });
    try {
      setOptions(await send<Answer<"options">>(`/api/runs/${runId}/options`, changed));
    } catch (error) {
      setOptions(options);
      throw error;
    }
  };
  const changeNotice = async (isWanted: boolean) => {
    const may = await chooseNotice(isWanted);
    setNotify(may);
    if (isWanted && !may) throw new Error(t("The browser does not allow it."));
  };
  useEffect(() => {
    // An empty change returns the current options.
    change({}).catch(() => {});
  }, []);
  const box = (
    label: string,
    checked: boolean | undefined,
    onChange: (isWanted: boolean) => unknown,
    id?: string,
  ) => (
    <label class="check">
      <input
        type="checkbox"
        id={id}
        checked={checked}
        disabled={checked === undefined}
        aria-disabled={isBusy ? "true" : undefined}
        onChange={({ currentTarget }) => attempt(() => onChange(currentTarget.checked))}
      />
      {label}
    </label>
  );
  return (
    <fieldset id="options" class="row note">
      <legend class="unseen">{t("While it runs")}</legend>
      {box(
        t("Ask me before sensitive tools run"),
        options?.require_approval,
        (isOn) => change({ require_approval: isOn }),
      )}
      {box(
        t("Pause between rounds for my comments"),
        options?.pause_between_rounds,
        (isOn) => change({ pause_between_rounds: isOn }),
      )}
      {CAN_NOTIFY && box(t("Notify me when it waits or ends"), mayNotify, changeNotice, "opt-notify")}
    </fieldset>
  );
}
