import { useEffect, useState } from "preact/hooks";
import { ask, whyOf } from "./api.ts";
import { useNotices } from "./notices.tsx";

/**
 * Loads a view of the server, again at an interval if given. A failure of the first load is reported. The last value
 * is the reason why the shown view can be out of date.
 */
export function useLoaded<View>(
  path: string,
  everyMs?: number | ((view: View) => number),
): readonly [view: View | undefined, reload: () => Promise<void>, stale: string] {
  const { complain } = useNotices();
  const [view, setView] = useState<View>();
  const [stale, setStale] = useState("");
  const load = async () => {
    setView(await ask<View>(path));
    setStale("");
  };
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    let isShown = true;
    let isFirst = true;
    let pauseMs = typeof everyMs === "number" ? everyMs : DEFAULT_PAUSE_MS;
    const next = async () => {
      clearTimeout(timer);
      try {
        // Nobody sees a hidden page.
        if (isFirst || !document.hidden) {
          const fresh = await ask<View>(path);
          if (!isShown) return;
          setView(fresh);
          setStale("");
          if (typeof everyMs === "function") pauseMs = everyMs(fresh);
        }
      } catch (error) {
        if (!isShown) return;
        if (isFirst) complain(whyOf(error));
        else setStale(whyOf(error));
      }
      isFirst = false;
      clearTimeout(timer);
      if (isShown && everyMs !== undefined) timer = setTimeout(next, pauseMs);
    };
    const resume = () => {
      if (everyMs !== undefined && !document.hidden) next();
    };
    document.addEventListener("visibilitychange", resume);
    next();
    return () => {
      isShown = false;
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", resume);
    };
  }, [path]);
  return [view, load, stale];
}

const DEFAULT_PAUSE_MS = 5000;

/** The current time, updated at an interval. */
export function useNow(everyMs: number): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return now;
}
