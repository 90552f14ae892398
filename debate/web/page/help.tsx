import { Fragment, type JSX } from "preact";
import { useLayoutEffect, useState } from "preact/hooks";
import { DialogButton } from "./dialog.tsx";
import { t } from "./language.ts";
import { readChoice, storeChoice } from "./stored.ts";

const KEY = "shortcuts";

const go = (hash: string) => () => {
  location.hash = hash;
};
/** The target opens, and has the focus, so that the tab key continues there. */
const focus = (place: HTMLElement | null | undefined) => {
  if (!place) return;
  place.closest("details")?.setAttribute("open", "");
  if (place.tabIndex < 0) place.tabIndex = -1;
  place.focus({ preventScroll: true });
  place.scrollIntoView();
};
export const goTo = (id: string) => () => focus(document.getElementById(id));
const toggleMap = () => {
  const summary = document.querySelector<HTMLElement>("#map > summary");
  summary?.focus();
  summary?.click();
};
/** The view of the runs appears after the hash has changed. */
const searchRuns = () => {
  location.hash = "#/runs";
  setTimeout(goTo("runs-search"), 300);
};
const open = () => document.getElementById("help")?.click();
const step = (by: number) => () => {
  const cards = [...document.querySelectorAll<HTMLElement>(".thread > li")];
  const at = cards.findIndex((card) => card.contains(document.activeElement));
  focus(cards[Math.min(cards.length - 1, Math.max(0, at + by))]);
};

/** Decisions have no shortcut, to prevent an accidental approval. */
const SHORTCUTS: readonly (readonly [key: string, text: string, act: () => void])[] = [
  ["n", t("New run"), go("#/")],
  ["r", t("List of runs"), go("#/runs")],
  ["/", t("Search the runs"), searchRuns],
  ["w", t("Go to the pending request"), goTo("waiting")],
  ["a", t("Go to the answer"), goTo("answer")],
  ["h", t("Go to the hypotheses"), goTo("hypotheses")],
  ["m", t("Open or close the map"), toggleMap],
  ["c", t("Go to the conversation"), goTo("conversation")],
  ["j", t("Next card"), step(1)],
  ["k", t("Previous card"), step(-1)],
];

/** The button and the dialog of the shortcuts. With `?` the dialog always opens. */
export function Help(): JSX.Element {
  const [isOn, setOn] = useState(readChoice(KEY) !== "no");
  const shown = [["?", t("Show this help"), open] as const, ...SHORTCUTS];
  // The choice applies to the next key.
  useLayoutEffect(() => {
    const press = (event: KeyboardEvent) => {
      const { key, target, ctrlKey, metaKey, altKey } = event;
      const isWriting = target instanceof Element &&
        target.closest("input:not([type=checkbox]), textarea, select, dialog") !== null;
      if (ctrlKey || metaKey || altKey || isWriting || (!isOn && key !== "?")) return;
      const act = shown.find(([each]) => each === key)?.[2];
      if (act === undefined) return;
      event.preventDefault();
      act();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, [isOn]);
  return (
    <DialogButton
      button={{ id: "help", class: "quiet small", children: t("Shortcuts") }}
      title={t("Shortcuts")}
    >
      <dl class="shortcuts">
        {shown.map(([key, text]) => (
          <Fragment key={key}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{text}</dd>
          </Fragment>
        ))}
      </dl>
      <label class="check">
        <input
          type="checkbox"
          checked={isOn}
          onChange={({ currentTarget }) => {
            setOn(currentTarget.checked);
            storeChoice(KEY, currentTarget.checked ? "yes" : "no");
          }}
        />
        {t("Use shortcuts on this page")}
      </label>
    </DialogButton>
  );
}
