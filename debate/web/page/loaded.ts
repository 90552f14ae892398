import { useEffect, useState } from "preact/hooks";
import { ask, whyOf } from "./api.ts";
import { useNotices } from "./notices.tsx";

/** Loads a view of the server, again each `everyMs` if given. A failure of the first load is reported. */
export function useLoaded<View>(
  path: string,
  everyMs?: number,
): readonly [view: View | undefined, reload: () => Promise<void>] {
  const { complain } = useNotices();
  const [view, setView] = useState<View>();
  const load = async () => setView(await ask<View>(path));
  useEffect(() => {
    let isShown = true;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let isFirst = true;
    const next = async () => {
      try {
        const fresh = await ask<View>(path);
        if (isShown) setView(fresh);
      } catch (error) {
        if (isShown && isFirst) complain(whyOf(error));
      }
      isFirst = false;
      if (isShown && everyMs !== undefined) timer = setTimeout(next, everyMs);
    };
    next();
    return () => {
      isShown = false;
      clearTimeout(timer);
    };
  }, [path]);
  return [view, load];
}

/** The current time, updated at an interval. */
export function useNow(everyMs: number): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return now;
}
