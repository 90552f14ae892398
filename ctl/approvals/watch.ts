import { type Clock, systemClock } from "@gateway/shared/clock";
import { AppError } from "@gateway/shared/errors";
import { quoteText, visibleText } from "@gateway/shared/text";
import type { ApprovalRecord } from "@gateway/shared/wire";
import { type Environment, invalid } from "../kit/output.ts";
import { formatDetails } from "./text.ts";

const POLL_MS = 1_000;

/** Watches until the operator quits, or the environment's signal ends it; `decide` returns a message. */
export async function watchApprovals(
  { terminal, keys, signal }: Environment,
  { pending, decide }: {
    readonly pending: () => Promise<readonly ApprovalRecord[]>;
    readonly decide: (shown: Shown, approve: boolean) => Promise<string>;
  },
  clock: Clock = systemClock,
): Promise<void> {
  if (keys === undefined) {
    const hint = "in programs, use broker-ctl approval list --status pending --json";
    throw invalid("Cannot watch: standard input is not a terminal", undefined, hint);
  }
  const ended = new AbortController();
  const end = signal === undefined ? ended.signal : AbortSignal.any([signal, ended.signal]);
  let state: WatchState = NOTHING_WATCHED;
  const print = (lines: readonly string[]) =>
    terminal.out(lines.map((line) => `${visibleText(line)}\n`).join(""));
  const take = async (event: WatchEvent): Promise<void> => {
    const { action, lines, state: next } = watch(state, event);
    state = next;
    print(lines);
    if (action?.kind === "quit") ended.abort();
    if (action?.kind !== "decide") return;
    const { shown: [id], shown, approve } = action;
    const said = await decide(shown, approve).catch((error) => {
      if (error instanceof AppError) return `no decision: ${error.message}`;
      throw error;
    });
    await take({ kind: "decided", id, lines: [said], now: clock.now() });
  };
  const takeList = async () => await take({ kind: "list", pending: await pending(), now: clock.now() });
  // The first request must succeed. Later, a connection loss is reported once.
  const followList = async () => {
    await takeList();
    for (let isAway = false;;) {
      await clock.sleep(POLL_MS, end).catch(() => {});
      if (end.aborted) return;
      try {
        await takeList();
        if (isAway) print(["control plane reachable again"]);
        isAway = false;
      } catch (error) {
        if (!(error instanceof AppError)) throw error;
        if (!isAway) print([`${error.message}; retrying`]);
        isAway = true;
      }
    }
  };
  const followKeys = async () => {
    for await (const key of keys(end)) await take({ kind: "key", key, now: clock.now() });
  };
  await Promise.all([followList, followKeys].map((follow) => follow().finally(() => ended.abort())));
}

/** The ids of the request on the screen, and of the identical requests that are decided with it. */
type Shown = readonly [id: string, ...joined: string[]];

export type WatchEvent =
  & { readonly now: number }
  & (
    | { readonly kind: "list"; readonly pending: readonly ApprovalRecord[] }
    | { readonly kind: "key"; readonly key: string }
    | { readonly kind: "decided"; readonly id: string; readonly lines: readonly string[] }
  );

interface WatchStep {
  readonly state: WatchState;
  readonly lines: readonly string[];
  readonly action?:
    | { readonly kind: "decide"; readonly shown: Shown; readonly approve: boolean }
    | { readonly kind: "quit" };
}

/** The request on the screen, and the other pending requests. */
export interface WatchState {
  readonly pending: readonly ApprovalRecord[];
  /** The request that keys apply to: the last one shown, until it is decided or gone. */
  readonly current?:
    | { readonly shown: Shown; readonly shownAt: number; readonly asked?: "allow" | "deny" }
    | undefined;
  readonly skipped: ReadonlySet<string>;
  readonly isEmptyShown: boolean;
}

export const NOTHING_WATCHED: WatchState = { pending: [], skipped: new Set(), isEmptyShown: false };

/**
 * A key that is typed within this time after a new request appears is ignored, because it was probably meant
 * for the previous request.
 */
export const READING_MS = 700;

const KEYS_LINE = "[a]pprove  [d]eny  [s]kip  [q]uit";

/**
 * One step of `approval watch`. A key applies to the request on the screen, later requests wait, and a decision needs a
 * second key.
 */
export function watch(state: WatchState, event: WatchEvent): WatchStep {
  switch (event.kind) {
    case "list":
      return takeList(state, event.pending, event.now);
    case "decided": {
      const pending = state.pending.filter(({ id }) => id !== event.id);
      return showNext({ ...state, pending }, event.now, ...event.lines);
    }
    case "key":
      return takeKey(state, event.key, event.now);
    default:
      return event satisfies never;
  }
}

function takeList(state: WatchState, list: readonly ApprovalRecord[], now: number): WatchStep {
  const pending = list.toSorted((a, b) =>
    a.created_at < b.created_at ? -1 : a.created_at > b.created_at ? 1 : 0
  );
  const next = { ...state, pending };
  if (state.current === undefined) return showNext(next, now);
  const [shownId] = state.current.shown;
  if (!pending.some(({ id }) => id === shownId)) {
    return showNext(
      next,
      now,
      `request ${shownId} is no longer pending: it was decided elsewhere, or expired`,
    );
  }
  const known = new Set(state.pending.map(({ id }) => id));
  const more = pending.filter(({ id }) => !known.has(id)).length;
  return { state: next, lines: more === 0 ? [] : [`${more} more pending`] };
}

function takeKey(state: WatchState, key: string, now: number): WatchStep {
  // In raw mode, the terminal delivers Ctrl-C and Ctrl-D as characters.
  if (key === "q" || key === "\x03" || key === "\x04") return { state, lines: [], action: { kind: "quit" } };
  const { current } = state;
  if (current === undefined || now - current.shownAt < READING_MS) return { state, lines: [] };
  const { shown, shownAt, asked } = current;
  const [id] = shown;
  if (asked !== undefined) {
    const unasked = { ...state, current: { shown, shownAt } };
    if (key !== "y") return { state: unasked, lines: ["no decision", KEYS_LINE] };
    return { state: unasked, lines: [], action: { kind: "decide", shown, approve: asked === "allow" } };
  }
  if (key === "a" || key === "d") {
    const asked = key === "a" ? "allow" : "deny";
    const about = state.pending.find((each) => each.id === id);
    const question = `${key === "a" ? "Approve" : "Deny"} ${
      quoteText(about?.command ?? id)
    } on ${about?.host}? [y/N]`;
    return { state: { ...state, current: { shown, shownAt, asked } }, lines: [question] };
  }
  if (key !== "s") return { state, lines: [KEYS_LINE] };
  const skipped = new Set([...state.skipped, id]);
  return showNext({ ...state, skipped }, now, `skipped; to see it again: broker-ctl approval show ${id}`);
}

/** Shows the next request, after lines about the previous one. */
function showNext(state: WatchState, now: number, ...lines: readonly string[]): WatchStep {
  const next = state.pending.find(({ id }) => !state.skipped.has(id));
  if (next === undefined) {
    const nothing = state.isEmptyShown ? [] : ["(no pending requests; press q to quit)"];
    return { state: { ...state, current: undefined, isEmptyShown: true }, lines: [...lines, ...nothing] };
  }
  const current = { shown: [next.id, ...next.joined ?? []], shownAt: now } as const;
  return {
    state: { ...state, current, isEmptyShown: false },
    lines: [...lines, "", ...formatDetails(next), KEYS_LINE],
  };
}
