import { useEffect, useRef, useState } from "preact/hooks";
import { ask, send, whyOf } from "./api.ts";
import { t } from "./language.ts";
import { useNotices } from "./notices.tsx";
import { isEphemeral, isLater, type LiveText, streamed } from "./stream.ts";
import { beginSummary, endSummary, type Summary, tell, type TimedEvent } from "./summary.ts";
import type { RunView, SettingsView } from "./views.ts";

/** Options of a run that can change while it runs. */
export interface RunOptions {
  readonly require_approval: boolean;
  readonly pause_between_rounds: boolean;
}

/** A run as shown. Each change is a new object, and `events` only grows. */
export interface FollowedRun {
  readonly record: RunView;
  readonly settings: SettingsView;
  readonly options: RunOptions | undefined;
  readonly summary: Summary;
  readonly events: readonly TimedEvent[];
  readonly live: LiveText | undefined;
  readonly isOver: boolean;
  /** There are events that are not shown yet. They can contain the decision on a pending request. */
  readonly isBehind: boolean;
  readonly isConnected: boolean;
}

/** Milliseconds between two drawings of a run in progress, and the longest time without a pause for the browser. */
const DRAW_MS = 50;
const BUSY_MS = 30;
/** The number of events between two pauses. */
const AT_A_TIME = 100;

/** Loads a run and follows it until it ends. A stored run is shown answer first, then event by event. */
export function useRun(
  runId: string,
): readonly [run: FollowedRun | undefined, reload: () => Promise<RunView>] {
  const { complain, announce } = useNotices();
  const [run, setRun] = useState<FollowedRun>();
  const isShown = useRef(true);
  const reload = async () => {
    const record = await ask<RunView>(`/api/runs/${runId}`);
    if (isShown.current) setRun((shown) => shown && { ...shown, record });
    return record;
  };
  useEffect(() => {
    isShown.current = true;
    let leave = () => {};
    const show = async () => {
      const [record, settings] = await Promise.all([
        ask<RunView>(`/api/runs/${runId}`),
        ask<SettingsView>("/api/settings"),
      ]);
      if (!isShown.current) return;
      const summary = beginSummary(record.imported === true);
      const isOver = record.status !== "running";
      const begun = { record, settings, options: undefined, summary, events: [], live: undefined };
      const first = { ...begun, isOver, isBehind: !isOver, isConnected: true };
      leave = isOver ? showStored(first, setRun) : follow(first, setRun, () => {
        reload().then(({ status }) => {
          announce(t("The run has ended: {status}.", { status: t(status ?? "unknown") }));
        }, (error) => complain(whyOf(error)));
      });
    };
    show().catch((error) => isShown.current && complain(whyOf(error)));
    return () => {
      isShown.current = false;
      leave();
    };
  }, [runId]);
  return [run, reload];
}

type SetRun = (change: FollowedRun | ((shown: FollowedRun | undefined) => FollowedRun | undefined)) => void;

/** Records can be edited or imported, and a server can be newer than the page: a broken event hides no other one. */
function tellSafely(summary: Summary, event: TimedEvent): void {
  try {
    tell(summary, event);
  } catch {
    // The conversation counts the events that cannot be shown.
  }
}

function showStored(first: FollowedRun, setRun: SetRun): () => void {
  const { summary, record } = first;
  const events = record.events ?? [];
  for (const event of events) tellSafely(summary, event);
  endSummary(summary);
  setRun(first);
  let shown = 0;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const next = () => {
    shown = Math.min(shown + AT_A_TIME, events.length);
    setRun((run) => run && { ...run, events: events.slice(0, shown) });
    if (shown < events.length) timer = setTimeout(next);
  };
  timer = setTimeout(next);
  return () => clearTimeout(timer);
}

function follow(first: FollowedRun, setRun: SetRun, onEnd: () => void): () => void {
  const { summary, record: { run_id: runId, events: stored = [] } } = first;
  const source = new EventSource(`/api/runs/${runId}/events`);
  let queue: string[] = [];
  let events: readonly TimedEvent[] = [];
  let live: LiveText | undefined;
  let lastId = "0";
  let isOver = false;
  let isConnected = true;
  /** The copy of the summary that the page shows. Pieces of text do not change it. */
  let drawn = summary;
  let hasNews = false;
  let timer: ReturnType<typeof setTimeout> | undefined;

  const draw = () => {
    const isBehind = queue.length > 0 || isLater(String(stored.length), lastId);
    const isTold = hasNews || summary.doing !== drawn.doing || summary.limited !== drawn.limited;
    if (isTold) drawn = { ...summary };
    hasNews = false;
    const changed = { summary: drawn, events, live, isOver, isBehind, isConnected };
    setRun((shown) => ({ ...(shown ?? first), ...changed }));
  };
  const apply = (data: string, shown: TimedEvent[]) => {
    try {
      const event: TimedEvent = JSON.parse(data);
      if (!isEphemeral(event)) shown.push(event);
      hasNews ||= event.type !== "agent_delta";
      isOver ||= event.type === "run_finished";
      live = streamed(live, event);
      tell(summary, event);
    } catch {
      // As in tellSafely().
    }
  };
  const drain = (ms: number) => {
    clearTimeout(timer);
    timer = undefined;
    const end = performance.now() + ms;
    const shown: TimedEvent[] = [];
    let count = 0;
    const most = ms === Infinity ? queue.length : Math.min(queue.length, AT_A_TIME);
    while (count < most && performance.now() < end) apply(queue[count++] ?? "", shown);
    queue = queue.slice(count);
    if (shown.length > 0) events = [...events, ...shown];
    if (queue.length > 0 && !isOver) timer = setTimeout(drain, 0, BUSY_MS);
    if (isOver) finish();
    else draw();
  };
  const finish = () => {
    source.close();
    isOver = true;
    live = undefined;
    endSummary(summary);
    hasNews = true;
    draw();
    onEnd();
  };
  source.onopen = () => {
    isConnected = true;
    draw();
  };
  source.onmessage = ({ data, lastEventId }) => {
    if (isOver || !isLater(lastEventId, lastId)) return;
    lastId = lastEventId;
    queue.push(data);
    // An invisible page has no animation frames, so this is a timer.
    timer ??= setTimeout(drain, DRAW_MS, BUSY_MS);
  };
  source.onerror = () => {
    if (source.readyState === EventSource.CLOSED) {
      drain(Infinity);
      if (!isOver) finish();
      return;
    }
    isConnected = false;
    draw();
  };
  setRun(first);
  // An empty change returns the current options.
  send<RunOptions>(`/api/runs/${runId}/options`, {})
    .then((options) => setRun((shown) => shown && { ...shown, options }), () => {});
  return () => {
    clearTimeout(timer);
    source.close();
  };
}
