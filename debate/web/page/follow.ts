import { useEffect, useState } from "preact/hooks";
import { errorText } from "@gateway/shared/errors";
import { ask } from "./api.ts";
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
/** Milliseconds until a rejected event stream is requested again. */
const RETRY_MS = 2000;

/** Loads a run, and follows a run in progress until it ends. */
export function useRun(
  runId: string,
): readonly [run: FollowedRun | undefined, reload: () => Promise<RunView>] {
  const { complain, announce } = useNotices();
  const [run, setRun] = useState<FollowedRun>();
  const load = () => ask<RunView>(`/api/runs/${runId}`);
  const reload = async () => {
    const record = await load();
    setRun((shown) => shown && { ...shown, record });
    return record;
  };
  useEffect(() => {
    let isShown = true;
    let leave = () => {};
    const fail = (error: unknown) => isShown && complain(errorText(error));
    const onEnd = async () => {
      const record = await reload();
      const text = t("The run has ended: {status}.", { status: t(record.status ?? "unknown") });
      announce(text);
      notify(record, "end", text);
    };
    Promise.all([load(), ask<SettingsView>("/api/settings")]).then(([record, settings]) => {
      if (isShown) leave = follow({ record, settings }, setRun, load, () => onEnd().catch(fail));
    }).catch(fail);
    return () => {
      isShown = false;
      leave();
    };
  }, []);
  return [run, reload];
}

function follow(
  { record, settings }: Pick<FollowedRun, "record" | "settings">,
  setRun: (change: (shown: FollowedRun | undefined) => FollowedRun) => void,
  load: () => Promise<RunView>,
  onEnd: () => void,
): () => void {
  const { run_id: runId, events: stored = [] } = record;
  const summary = beginSummary(record.imported);
  let isOver = record.status !== "running";
  let queue: TimedEvent[] = isOver ? [...stored] : [];
  let events: readonly TimedEvent[] = [];
  let lastId = "0";
  /** The copy of the summary that the page shows. Pieces of text do not change it. */
  let drawn = summary;
  let timer: ReturnType<typeof setTimeout> | undefined;

  const draw = (isConnected = true) => {
    clearTimeout(timer);
    timer = undefined;
    for (const event of queue) tell(summary, event);
    if (isOver) endSummary(summary);
    const isTold = queue.some((event) => event?.type !== "agent_delta") || summary.doing !== drawn.doing ||
      summary.limited !== drawn.limited;
    if (isTold || isOver) drawn = { ...summary };
    // The conversation shows the others as the text of the current turn. An event of an edited record can be null.
    const whole = queue.filter((event) => !["agent_turn_started", "agent_delta"].includes(event?.type));
    if (whole.length > 0) events = [...events, ...whole];
    queue = [];
    const isBehind = isLater(String(stored.length), lastId);
    const changed = { summary: drawn, events, live: summary.live, isOver, isBehind, isConnected };
    setRun((shown) => ({ record, settings, ...shown, ...changed }));
  };
  draw();
  if (isOver) return () => {};
  let source: EventSource;
  const finish = () => {
    source.close();
    isOver = true;
    draw();
    onEnd();
  };
  /** The stream of a run that ended is closed, but also a stream above the limit, or while the server restarts. */
  const onClosed = async () => {
    const { status } = await load().catch(({ cause }) => ({ status: cause === 404 ? "unknown" : "running" }));
    if (isOver) return;
    if (status === "running") timer = setTimeout(connect, RETRY_MS);
    else finish();
  };
  const connect = () => {
    source = new EventSource(`/api/runs/${runId}/events`);
    source.onopen = () => draw();
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
    source.onerror = () => {
      draw(false);
      if (source.readyState === EventSource.CLOSED) onClosed();
    };
  };
  connect();
  return () => {
    isOver = true;
    clearTimeout(timer);
    source.close();
  };
}
