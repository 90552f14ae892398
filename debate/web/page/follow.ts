import { useEffect, useState } from "preact/hooks";
import { ask, whyOf } from "./api.ts";
import { t } from "./language.ts";
import { useNotices } from "./notices.tsx";
import { notify } from "./notify.ts";
import { beginSummary, endSummary, isLater, type Summary, tell, type TimedEvent } from "./summary.ts";
import type { RunView, SettingsView } from "./views.ts";

/** A run as shown. Each change is a new object, and `events` only grows. */
export interface FollowedRun {
  readonly record: RunView;
  readonly settings: SettingsView;
  readonly summary: Summary;
  readonly events: readonly TimedEvent[];
  readonly live: Summary["live"];
  readonly isOver: boolean;
  /** There are events that are not shown yet. They can contain the decision on a pending request. */
  readonly isBehind: boolean;
  readonly isConnected: boolean;
}

/** Milliseconds between two drawings of a run in progress. */
const DRAW_MS = 50;

/** Loads a run and follows it until it ends. A stored run is shown answer first, then with its conversation. */
export function useRun(
  runId: string,
): readonly [run: FollowedRun | undefined, reload: () => Promise<RunView>] {
  const { complain, announce } = useNotices();
  const [run, setRun] = useState<FollowedRun>();
  const reload = async () => {
    const record = await ask<RunView>(`/api/runs/${runId}`);
    setRun((shown) => shown && { ...shown, record });
    return record;
  };
  useEffect(() => {
    let isShown = true;
    let leave = () => {};
    const fail = (error: unknown) => isShown && complain(whyOf(error));
    const onEnd = async () => {
      const record = await reload();
      const text = t("The run has ended: {status}.", { status: t(record.status ?? "unknown") });
      announce(text);
      notify(record, "end", text);
    };
    const show = async () => {
      const [record, settings] = await Promise.all([
        ask<RunView>(`/api/runs/${runId}`),
        ask<SettingsView>("/api/settings"),
      ]);
      if (!isShown) return;
      const summary = beginSummary(record.imported === true);
      const isOver = record.status !== "running";
      const begun = { record, settings, summary, events: [], live: undefined };
      const first = { ...begun, isOver, isBehind: !isOver, isConnected: true };
      leave = isOver ? showStored(first, setRun) : follow(first, setRun, () => onEnd().catch(fail));
    };
    show().catch(fail);
    return () => {
      isShown = false;
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
  const { summary, record: { events = [] } } = first;
  for (const event of events) tellSafely(summary, event);
  endSummary(summary);
  setRun(first);
  const timer = setTimeout(() => setRun((run) => run && { ...run, events }));
  return () => clearTimeout(timer);
}

function follow(first: FollowedRun, setRun: SetRun, onEnd: () => void): () => void {
  const { summary, record: { run_id: runId, events: stored = [] } } = first;
  const source = new EventSource(`/api/runs/${runId}/events`);
  let events: readonly TimedEvent[] = [];
  let queue: TimedEvent[] = [];
  let lastId = "0";
  let isOver = false;
  /** The copy of the summary that the page shows. Pieces of text do not change it. */
  let drawn = summary;
  let timer: ReturnType<typeof setTimeout> | undefined;

  const draw = () => {
    clearTimeout(timer);
    timer = undefined;
    for (const event of queue) tellSafely(summary, event);
    if (isOver) endSummary(summary);
    const isTold = queue.some(({ type }) => type !== "agent_delta") || summary.doing !== drawn.doing ||
      summary.limited !== drawn.limited;
    if (isTold || isOver) drawn = { ...summary };
    // The conversation shows the others as the text of the current turn.
    const whole = queue.filter(({ type }) => type !== "agent_turn_started" && type !== "agent_delta");
    if (whole.length > 0) events = [...events, ...whole];
    queue = [];
    const changed = {
      summary: drawn,
      events,
      live: summary.live,
      isOver,
      isBehind: isLater(String(stored.length), lastId),
      isConnected: source.readyState !== EventSource.CONNECTING,
    };
    setRun((shown) => ({ ...(shown ?? first), ...changed }));
  };
  const finish = () => {
    if (isOver) return;
    isOver = true;
    source.close();
    draw();
    onEnd();
  };
  source.onopen = draw;
  source.onmessage = ({ data, lastEventId }) => {
    if (isOver || !isLater(lastEventId, lastId)) return;
    lastId = lastEventId;
    const event: TimedEvent = JSON.parse(data);
    const isLast = event.type === "run_finished";
    queue.push(event);
    if (isLast) finish();
    // An invisible page has no animation frames, so this is a timer.
    else timer ??= setTimeout(draw, DRAW_MS);
  };
  source.onerror = () => source.readyState === EventSource.CLOSED ? finish() : draw();
  setRun(first);
  return () => {
    clearTimeout(timer);
    source.close();
  };
}
