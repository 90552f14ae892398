import { type ComponentChildren, createContext, type JSX } from "preact";
import { useContext, useEffect, useMemo, useState } from "preact/hooks";
import { Problem, VisibleText } from "@gateway/shared/ui";
import { whyOf } from "./api.ts";
import { t } from "./language.ts";

interface Notices {
  /** Shows an error above the content; an empty text removes it. */
  complain(text: string): void;
  /** Shows a text for a few seconds. Screen readers announce it. */
  announce(text: string): void;
  readonly problem: string;
}

const Context = createContext<Notices>({ complain() {}, announce() {}, problem: "" });

const SHOWN_MS = 4000;

/** The place of messages that do not belong to one control. */
export function WithNotices({ children }: { readonly children: ComponentChildren }): JSX.Element {
  const [problem, complain] = useState("");
  const [news, announce] = useState("");
  useEffect(() => {
    if (news === "") return;
    const timer = setTimeout(announce, SHOWN_MS, "");
    return () => clearTimeout(timer);
  }, [news]);
  const notices = useMemo(() => ({ complain, announce, problem }), [problem]);
  return (
    <Context.Provider value={notices}>
      {children}
      <div id="news" role="status">{news !== "" && <p class="toast">{news}</p>}</div>
    </Context.Provider>
  );
}

export function useNotices(): Notices {
  return useContext(Context);
}

/** The current problem. */
export function ShownProblem(): JSX.Element | null {
  const { problem } = useNotices();
  useEffect(() => {
    if (problem !== "") document.querySelector<HTMLElement>("#problem .problem")?.focus();
  }, [problem]);
  return problem === "" ? null : (
    <div id="problem">
      <Problem>
        <VisibleText text={problem} lines />
      </Problem>
    </div>
  );
}

/** Runs an action, one at a time, and reports a failure. While `isBusy`, its control is disabled. */
export function useAction(): readonly [isBusy: boolean, attempt: (act: () => unknown) => Promise<void>] {
  const { complain } = useNotices();
  const [isBusy, setBusy] = useState(false);
  const attempt = async (act: () => unknown) => {
    if (isBusy) return;
    setBusy(true);
    complain("");
    try {
      await act();
    } catch (error) {
      complain(t("Not done: {why}", { why: whyOf(error) }));
    } finally {
      setBusy(false);
    }
  };
  return [isBusy, attempt];
}
