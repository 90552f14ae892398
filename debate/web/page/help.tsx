import { Fragment, type JSX } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { t } from "./language.ts";
import { readChoice, storeChoice } from "./stored.ts";

const KEY = "shortcuts";

type Shortcut = readonly [key: string, text: string, act: () => void];

const go = (hash: string) => () => {
  location.hash = hash;
};
/** The focus moves to the target, so that the tab key continues there. */
const goTo = (id: string) => () => {
  const place = document.getElementById(id);
  if (place === null) return;
  if (!place.hasAttribute("tabindex")) place.tabIndex = -1;
  place.focus({ preventScroll: true });
  place.scrollIntoView();
};
const toggleMap = () => {
  const map = document.querySelector<HTMLDetailsElement>("#map");
  if (map === null) return;
  map.open = !map.open;
  map.querySelector("summary")?.focus();
};
/** The view of the runs appears after the hash has changed. */
const searchRuns = () => {
  location.hash = "#/runs";
  setTimeout(() => document.getElementById("runs-search")?.focus(), 300);
};
const cardOf = (element: Element | null) => element?.closest(".thread > li");
const step = (by: number) => () => {
  const cards = [...document.querySelectorAll<HTMLElement>(".thread > li")];
  const at = cards.findIndex((card) => card === cardOf(document.activeElement));
  const card = cards[Math.min(cards.length - 1, Math.max(0, at + by))];
  if (card === undefined) return;
  card.tabIndex = -1;
  card.focus();
};
const toggleCard = () => {
  const focused = document.activeElement;
  const details = focused?.closest("details") ?? cardOf(focused)?.querySelector("details");
  if (details) details.open = !details.open;
};
const toggleCalls = () => {
  const groups = [...document.querySelectorAll<HTMLDetailsElement>("details.call-group")];
  const isOpen = groups.some((each) => !each.open);
  for (const each of groups) each.open = isOpen;
};

/** Decisions have no shortcut, to prevent an accidental approval. */
const SHORTCUTS: readonly Shortcut[] = [
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
  ["o", t("Open or close the card"), toggleCard],
  ["e", t("Open or close all groups of tool calls"), toggleCalls],
];

/** The button and the dialog of the shortcuts. With `?` the dialog always opens. */
export function Help(): JSX.Element {
  const dialog = useRef<HTMLDialogElement>(null);
  const [isOn, setOn] = useState(readChoice(KEY) !== "no");
  const open = () => dialog.current?.showModal();
  // The choice applies to the next key.
  useLayoutEffect(() => {
    const press = (event: KeyboardEvent) => {
      const { key, target, ctrlKey, metaKey, altKey } = event;
      const isWriting = target instanceof Element &&
        target.closest("input:not([type=checkbox]), textarea, select, dialog") !== null;
      if (ctrlKey || metaKey || altKey || isWriting || (!isOn && key !== "?")) return;
      const act = key === "?" ? open : SHORTCUTS.find(([each]) => each === key)?.[2];
      if (act === undefined) return;
      event.preventDefault();
      act();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, [isOn]);
  return (
    <>
      <button type="button" class="quiet shortcuts-open" onClick={open}>{t("Shortcuts")}</button>
      <dialog ref={dialog} aria-labelledby="shortcuts-title">
        <h2 id="shortcuts-title">{t("Shortcuts")}</h2>
        <dl class="shortcuts">
          {[["?", t("Show this help")] as const, ...SHORTCUTS].map(([key, text]) => (
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
        <button type="button" onClick={() => dialog.current?.close()}>{t("Close")}</button>
      </dialog>
    </>
  );
}
