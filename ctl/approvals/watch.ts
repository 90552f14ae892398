import { type Clock, systemClock } from "@gateway/shared/clock";
import { AppError } from "@gateway/shared/errors";
import { visibleText } from "@gateway/shared/text";
import type { ApprovalRecord } from "@gateway/shared/wire";
import type { Environment } from "../kit/context.ts";
import { HintedError, invalid } from "../kit/output.ts";
import { formatDetails } from "./text.ts";

const POLL_MS = 1_000;

/** What of the control plane is watched, and how it is told a decision. */
interface Watched {
  readonly pending: () => Promise<readonly ApprovalRecord[]>;
  /** @returns what to say of it */
  readonly decide: (shown: Shown, approve: boolean) => Promise<string>;
}

/**
 * Watches until the one at the terminal quits, or the context's signal ends it.
 *
 * @throws {AppError} `invalid_request` without a terminal
 */
export async function watchApprovals(
  { terminal, keys, signal }: Environment,
  { pending, decide }: Watched,
  clock: Clock = systemClock,
): Promise<void> {
  if (keys === undefined) {
    throw new HintedError(
      invalid("Cannot watch: standard input is no terminal"),
      "broker-ctl approval list --status pending --json is for programs",
    );
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
      if (error instanceof AppError) return `not decided: ${error.message}`;
      throw error;
    });
    await take({ kind: "decided", id, lines: [said], now: clock.now() });
  };
  await Promise.all([
    followList({ pending, take, print, clock, signal: end }).finally(() => ended.abort()),
    followKeys(keys(end), take, clock).finally(() => ended.abort()),
  ]);
}

interface ListFollower {
  readonly pending: Watched["pending"];
  readonly take: (event: WatchEvent) => Promise<void>;
  readonly print: (lines: readonly string[]) => void;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

/** A control plane that is away for a moment is said once; the first answer has to come. */
async function followList({ pending, take, print, clock, signal }: ListFollower): Promise<void> {
  await take({ kind: "list", pending: await pending(), now: clock.now() });
  let isAway = false;
  while (!signal.aborted) {
    await clock.sleep(POLL_MS, signal).catch(() => {});
    if (signal.aborted) return;
    try {
      await take({ kind: "list", pending: await pending(), now: clock.now() });
      if (isAway) print(["the control plane answers again"]);
      isAway = false;
    } catch (error) {
      if (!(error instanceof AppError)) throw error;
      if (!isAway) print([`${error.message}; trying on`]);
      isAway = true;
    }
  }
}

async function followKeys(
  keys: AsyncIterable<string>,
  take: (event: WatchEvent) => Promise<void>,
  clock: Clock,
): Promise<void> {
  for await (const key of keys) await take({ kind: "key", key, now: clock.now() });
}

/** The ids of the request on the screen, and of the identical requests that are decided with it. */
type Shown = readonly [id: string, ...joined: string[]];

export type WatchEvent =
  | { readonly kind: "list"; readonly pending: readonly ApprovalRecord[]; readonly now: number }
  | { readonly kind: "key"; readonly key: string; readonly now: number }
  | {
    readonly kind: "decided";
    readonly id: string;
    readonly lines: readonly string[];
    readonly now: number;
  };

/** What comes of it, in this order. */
interface WatchStep {
  readonly state: WatchState;
  readonly lines: readonly string[];
  readonly action?:
    | { readonly kind: "decide"; readonly shown: Shown; readonly approve: boolean }
    | { readonly kind: "quit" };
}

/** What is on the screen, and what waits behind it. */
export interface WatchState {
  readonly pending: readonly ApprovalRecord[];
  /** The one that keys are about: that which was shown last, until it is decided or gone. */
  readonly current?: { readonly shown: Shown; readonly shownAt: number; readonly asked?: "allow" | "deny" };
  readonly skipped: ReadonlySet<string>;
  readonly isEmptyTold: boolean;
}

export const NOTHING_WATCHED: WatchState = { pending: [], skipped: new Set(), isEmptyTold: false };

/** Nobody reads in less: a key that comes sooner was meant for what stood there before. */
export const READING_MS = 700;

const KEYS_LINE = "a allow · d deny · s later · q quit";

/**
 * One step of `approval watch`. A key is about the request that was shown last and about no other: what else arrives
 * meanwhile waits, and a decision takes a second key.
 */
export function watch(state: WatchState, event: WatchEvent): WatchStep {
  switch (event.kind) {
    case "list":
      return takeList(state, event.pending, event.now);
    case "decided": {
      const { current: _, ...rest } = state;
      const pending = state.pending.filter(({ id }) => id !== event.id);
      return withLines(event.lines, showNext({ ...rest, pending }, event.now));
    }
    case "key":
      return takeKey(state, event.key, event.now);
    default:
      return event satisfies never;
  }
}

function takeList(state: WatchState, pending: readonly ApprovalRecord[], now: number): WatchStep {
  const sorted = pending.toSorted((a, b) =>
    a.created_at < b.created_at ? -1 : a.created_at > b.created_at ? 1 : 0
  );
  const known = new Set(state.pending.map(({ id }) => id));
  const { current } = state;
  if (current === undefined) return showNext({ ...state, pending: sorted }, now);
  const [shownId] = current.shown;
  if (!sorted.some(({ id }) => id === shownId)) {
    const { current: _, ...rest } = state;
    const gone = `request ${shownId} waits no longer: it was decided elsewhere, or is over`;
    return withLines([gone], showNext({ ...rest, pending: sorted }, now));
  }
  const more = sorted.filter(({ id }) => !known.has(id)).length;
  return { state: { ...state, pending: sorted }, lines: more === 0 ? [] : [`${more} more, after this one`] };
}

function takeKey(state: WatchState, key: string, now: number): WatchStep {
  // Control-C and control-D, which a terminal in raw mode passes on.
  if (key === "q" || key === "\x03" || key === "\x04") return { state, lines: [], action: { kind: "quit" } };
  const { current } = state;
  if (current === undefined || now - current.shownAt < READING_MS) return { state, lines: [] };
  const { shown, shownAt, asked } = current;
  const [id] = shown;
  if (asked !== undefined) {
    const unasked = { ...state, current: { shown, shownAt } };
    if (key !== "y") return { state: unasked, lines: ["not decided", KEYS_LINE] };
    return { state: unasked, lines: [], action: { kind: "decide", shown, approve: asked === "allow" } };
  }
  switch (key) {
    case "a":
      return {
        state: { ...state, current: { shown, shownAt, asked: "allow" } },
        lines: [`allow ${id}? y does it`],
      };
    case "d":
      return {
        state: { ...state, current: { shown, shownAt, asked: "deny" } },
        lines: [`deny ${id}? y does it`],
      };
    case "s": {
      const { current: _, ...rest } = state;
      return withLines(
        [`later: broker-ctl approval show ${id}`],
        showNext({ ...rest, skipped: new Set([...state.skipped, id]) }, now),
      );
    }
    default:
      return { state, lines: [KEYS_LINE] };
  }
}

function showNext(state: WatchState, now: number): WatchStep {
  const next = state.pending.find(({ id }) => !state.skipped.has(id));
  if (next === undefined) {
    return {
      state: { ...state, isEmptyTold: true },
      lines: state.isEmptyTold ? [] : ["(nothing waits; q quits)"],
    };
  }
  return {
    state: {
      ...state,
      isEmptyTold: false,
      current: { shown: [next.id, ...next.joined ?? []], shownAt: now },
    },
    lines: ["", ...formatDetails(next), KEYS_LINE],
  };
}

function withLines(lines: readonly string[], step: WatchStep): WatchStep {
  return { ...step, lines: [...lines, ...step.lines] };
}
