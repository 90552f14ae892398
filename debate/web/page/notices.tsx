import { type ComponentChildren, createContext, type JSX } from "preact";
import { useContext, useEffect, useRef, useState } from "preact/hooks";
import { Problem, VisibleText } from "@gateway/shared/ui";
import { errorText } from "@gateway/shared/errors";
import { t } from "./language.ts";

interface Notices {
  /** Shows an error above the content; an empty text removes it. */
  complain(text: string): void;
  /** Shows a text for a few seconds. Screen readers announce it. */
  announce(text: string): void;
}

const Context = createContext<Notices>({ complain() {}, announce() {} });

const SHOWN_MS = 4000;

/** The content, below the current problem and with the place of other messages. */
export function Main({ children }: { readonly children: ComponentChildren }): JSX.Element {
  const [problem, complain] = useState("");
  const [news, announce] = useState("");
  const [notices] = useState({ complain, announce });
  useEffect(() => {
    if (news === "") return;
    const timer = setTimeout(announce, SHOWN_MS, "");
    return () => clearTimeout(timer);
  }, [news]);
  useEffect(() => {
    if (problem !== "") document.querySelector<HTMLElement>("#problem .problem")?.focus();
  }, [problem]);
  return (
    <Context.Provider value={notices}>
      <main id="main" tabIndex={-1}>
        {problem !== "" && (
          <div id="problem">
            <Problem>
              <VisibleText text={problem} lines />
            </Problem>
          </div>
        )}
        {children}
      </main>
      <div id="news" role="status">{news !== "" && <p class="toast">{news}</p>}</div>
    </Context.Provider>
  );
}

export function useNotices(): Notices {
  return useContext(Context);
}

/** Runs an action, one at a time, and reports a failure. While `isBusy`, its control is disabled. */
export function useAction(): readonly [isBusy: boolean, attempt: (act: () => unknown) => Promise<void>] {
  const { complain } = useNotices();
  const [isBusy, setBusy] = useState(false);
  // A second click can come before the control is disabled.
  const isRunning = useRef(false);
  const attempt = async (act: () => unknown) => {
    if (isRunning.current) return;
    isRunning.current = true;
    setBusy(true);
    complain("");
    try {
      await act();
    } catch (error) {
      complain(t("Not done: {why}", { why: errorText(error) }));
    } finally {
      isRunning.current = false;
      setBusy(false);
    }
  };
  return [isBusy, attempt];
}
