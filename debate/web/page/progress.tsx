import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { VisibleText } from "@gateway/shared/ui";
import { send } from "./api.ts";
import { Allowed } from "./approvals.tsx";
import type { FollowedRun, RunOptions } from "./follow.ts";
import { t } from "./language.ts";
import { useAction } from "./notices.tsx";
import { CAN_NOTIFY, chooseNotice, wantsNotice } from "./notify.ts";

const STEPS = [
  ["diagnostic_agent", "Diagnosis"],
  ["skeptic_agent", "Review"],
  ["diagnostic_rebuttal_agent", "Rebuttal"],
  ["moderator_agent", "Decision"],
] as const;

/** More text is out of the box. */
const MAX_LIVE = 800;

/** The step of the round and the end of the text that arrives, with the options of a run in progress. */
export function Progress({ run }: { readonly run: FollowedRun }): JSX.Element {
  const { record: { run_id }, summary: { doing, allowed, approvals, pausedAt }, live, options } = run;
  const [asked] = approvals.values();
  const at = STEPS.findIndex(([node]) => node === (asked?.agent_node ?? doing?.node));
  const text = live?.text.slice(-MAX_LIVE) ?? "";
  return (
    <section class="card live" aria-labelledby="live-title">
      <h2 id="live-title" class="unseen">{t("Progress")}</h2>
      <ol class="steps">
        {STEPS.map(([node, name], index) => (
          <li
            key={node}
            class={index < at ? "done" : ""}
            aria-current={index === at ? "step" : undefined}
          >
            {t(name)}
          </li>
        ))}
      </ol>
      {asked === undefined && pausedAt === undefined && (
        <Tail text={text} isTool={doing?.tool !== undefined} />
      )}
      <Options key={options === undefined ? "" : "known"} runId={run_id} options={options} />
      <Allowed runId={run_id} calls={[...allowed.values()]} />
    </section>
  );
}

function Tail({ text, isTool }: { readonly text: string; readonly isTool: boolean }): JSX.Element {
  return (
    <div class="tail">
      <p>
        {text === ""
          ? <span class="note">{t(isTool ? "A tool is running …" : "Waiting for text …")}</span>
          : <VisibleText text={text} lines />}
      </p>
    </div>
  );
}

function Options(
  { runId, options }: { readonly runId: string; readonly options: RunOptions | undefined },
): JSX.Element {
  const [isDenied, setDenied] = useState(false);
  const [mayNotify, setNotify] = useState(wantsNotice());
  return (
    <fieldset id="options" class="row">
      <legend class="unseen">{t("While it runs")}</legend>
      <Option
        runId={runId}
        option="require_approval"
        isOn={options?.require_approval}
        name={t("Ask me before sensitive tools run")}
      />
      <Option
        runId={runId}
        option="pause_between_rounds"
        isOn={options?.pause_between_rounds}
        name={t("Pause between rounds for my comments")}
      />
      {CAN_NOTIFY && (
        <label class="check">
          <input
            type="checkbox"
            id="opt-notify"
            checked={mayNotify}
            onChange={async ({ currentTarget }) => {
              const isWanted = currentTarget.checked;
              const may = await chooseNotice(isWanted);
              currentTarget.checked = may;
              setNotify(may);
              setDenied(isWanted && !may);
            }}
          />
          {t("Notify me when it waits or ends")}
        </label>
      )}
      <span class="note" role="status">{isDenied && t("The browser does not allow it.")}</span>
    </fieldset>
  );
}

/** The box keeps the user's choice unless the server rejects it. */
function Option({ runId, option, isOn = false, name }: {
  readonly runId: string;
  readonly option: keyof RunOptions;
  readonly isOn: boolean | undefined;
  readonly name: string;
}): JSX.Element {
  const [isChecked, setChecked] = useState(isOn);
  const [isBusy, attempt] = useAction();
  const change = (isWanted: boolean) => {
    setChecked(isWanted);
    return attempt(async () => {
      try {
        const now = await send<RunOptions>(`/api/runs/${runId}/options`, { [option]: isWanted });
        setChecked(now[option]);
      } catch (error) {
        setChecked(!isWanted);
        throw error;
      }
    });
  };
  return (
    <label class="check">
      <input
        type="checkbox"
        checked={isChecked}
        aria-disabled={isBusy ? "true" : undefined}
        onChange={({ currentTarget }) => change(currentTarget.checked)}
      />
      {name}
    </label>
  );
}
