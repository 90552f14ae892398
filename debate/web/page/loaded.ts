import { useEffect, useState } from "preact/hooks";
import { errorText } from "@gateway/shared/errors";
import { ask } from "./api.ts";
import { useNotices } from "./notices.tsx";

/**
 * Loads a view of the server, again at an interval if given; without a path, nothing. A failure of the first load is
 * reported. The last value is the reason why the shown view can be out of date.
 */
export function useLoaded<View>(
  path: string | undefined,
  everyMs?: number,
): readonly [view: View | undefined, reload: () => Promise<void>, stale: string] {
  const { complain } = useNotices();
  const [view, setView] = useState<View>();
  const [stale, setStale] = useState("");
  const load = async () => {
    if (path !== undefined) setView(await ask<View>(path));
    setStale("");
  };
  useEffect(() => {
    let isShown = true;
    load().catch((error) => isShown && complain(errorText(error)));
    // Nobody sees a hidden page.
    const refresh = () => document.hidden || load().catch((error) => setStale(errorText(error)));
    const timer = everyMs === undefined ? undefined : setInterval(refresh, everyMs);
    return () => {
      isShown = false;
      clearInterval(timer);
    };
  }, [path]);
  return [view, load, stale];
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
