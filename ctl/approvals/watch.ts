import { type Clock, systemClock } from "@gateway/shared/clock";
import { AppError } from "@gateway/shared/errors";
import { visibleText } from "@gateway/shared/text";
import type { ApprovalRecord } from "@gateway/shared/wire";
import { type Environment, invalid } from "../kit/output.ts";
import {
  type Choice,
  CHOICES,
  type Current,
  draw,
  HELP,
  layOut,
  note,
  type Screen,
  type WatchState,
} from "./screen.ts";

const POLL_MS = 1_000;
/** The time to notice a new size of the terminal. */
const TICK_MS = 250;

/** Watches until the operator quits, or the environment's signal ends it. */
export async function watchApprovals(
  { terminal, keys, signal }: Environment,
  { pending, decide }: {
    readonly pending: () => Promise<readonly ApprovalRecord[]>;
    readonly decide: (shown: Shown, choice: Choice) => Promise<unknown>;
  },
  clock: Clock = systemClock,
): Promise<void> {
  if (keys === undefined) {
    const hint = "in programs, use broker-ctl approval list --status pending --json";
    throw invalid("Cannot watch: standard input is not a terminal", undefined, hint);
  }
  const ended = new AbortController();
  const end = signal === undefined ? ended.signal : AbortSignal.any([signal, ended.signal]);
  const screen = (): Screen => {
    const { columns, rows } = terminal.screen?.() ?? { columns: 0, rows: 0 };
    return { columns: columns || 80, rows: rows || 24 };
  };
  let state: WatchState = NOTHING_WATCHED;
  let shown = "";
  const show = (lines: readonly string[] = []) => {
    const size = screen();
    const isDrawn = !end.aborted && state !== NOTHING_WATCHED;
    const drawn = isDrawn ? draw(state, { ...size, now: clock.now() }, bold) : [];
    const next = JSON.stringify([size, lines, drawn]);
    if (next !== shown && lines.length + drawn.length > 0) terminal.out(redraw(lines, drawn));
    shown = next;
  };
  const take = async (event: WatchEvent): Promise<void> => {
    const { action, lines, state: next } = watch(state, event);
    state = next;
    if (action?.kind === "quit") ended.abort();
    show(lines);
    if (action?.kind !== "decide") return;
    const { shown, choice } = action;
    const failure = await decide(shown, choice).then(() => undefined, (error) => {
      if (error instanceof AppError) return error.message;
      throw error;
    });
    await take({ kind: "decided", choice, failure, now: clock.now() });
  };
  const takeList = async () => await take({ kind: "list", pending: await pending(), now: clock.now() });
  const pause = async (ms: number) => {
    await clock.sleep(ms, end).catch(() => {});
    return !end.aborted;
  };
  // The first request must succeed.
  const followList = async () => {
    await takeList();
    while (await pause(POLL_MS)) {
      await takeList().catch(async (error) => {
        if (!(error instanceof AppError)) throw error;
        await take({ kind: "away", message: `${error.message}; retrying`, now: clock.now() });
      });
    }
  };
  // The time left changes each second, and the terminal can get another size.
  const followTime = async () => {
    while (await pause(TICK_MS)) show();
  };
  const followKeys = async () => {
    for await (const key of keys(end)) await take({ kind: "key", key, now: clock.now(), screen: screen() });
  };
  try {
    const follow = [followList, followTime, followKeys];
    await Promise.all(follow.map((each) => each().finally(() => ended.abort())));
  } finally {
    terminal.out(`${ERASE}\x1b[?25h`);
  }
}

/** Clears the lines from the cursor on. At the top left, tmux copies what `\x1b[J` clears to its scrollback. */
const ERASE = "\r\x1b[K\n\x1b[J\x1b[A";
const bold = (text: string) => `\x1b[1m${text}\x1b[22m`;

/**
 * The text that replaces the drawn lines with lines that stay, and with new drawn lines. The cursor is hidden, and stays
 * at the first drawn line: no change of the terminal's size moves it away from there.
 */
function redraw(lines: readonly string[], drawn: readonly string[]): string {
  const kept = lines.map((line) => `${visibleText(line)}\n`).join("");
  const up = drawn.length > 1 ? `\x1b[${drawn.length - 1}A` : "";
  return `${ERASE}${kept}${drawn.length > 0 ? `\x1b[?25l${drawn.join("\n")}${up}\r` : ""}`;
}

/** The ids of the request on the screen, and of the identical requests that are decided with it. */
type Shown = readonly [id: string, ...joined: string[]];

export type WatchEvent =
  & { readonly now: number }
  & (
    | { readonly kind: "list"; readonly pending: readonly ApprovalRecord[] }
    | { readonly kind: "away"; readonly message: string }
    | { readonly kind: "key"; readonly key: string; readonly screen: Screen }
    | { readonly kind: "decided"; readonly choice: Choice; readonly failure: string | undefined }
  );

interface WatchStep {
  readonly state: WatchState;
  /** Lines that stay on the terminal. */
  readonly lines: readonly string[];
  readonly action?:
    | { readonly kind: "decide"; readonly shown: Shown; readonly choice: Choice }
    | { readonly kind: "quit" };
}

export const NOTHING_WATCHED: WatchState = { pending: [], skipped: new Set() };

/**
 * A key that is typed within this time after a new request appears is ignored, because it was probably meant
 * for the previous request.
 */
export const READING_MS = 700;

/**
 * One step of `approval watch`. A key applies to the request on the screen, later requests wait, and a decision needs a
 * second key.
 */
export function watch(state: WatchState, event: WatchEvent): WatchStep {
  const { current } = state;
  const { now } = event;
  switch (event.kind) {
    case "list": {
      const pending = event.pending.toSorted((a, b) =>
        a.created_at < b.created_at ? -1 : a.created_at > b.created_at ? 1 : 0
      );
      const next = { ...state, pending, away: undefined };
      if (current === undefined) return showNext(next, now);
      const { record, asked } = current;
      if (asked === "sent" || pending.some(({ id }) => id === record.id)) return { state: next, lines: [] };
      return showNext(next, now, note(now, "no longer pending:", record));
    }
    case "away":
      return { state: { ...state, away: event.message }, lines: [] };
    case "decided": {
      if (current === undefined) return { state, lines: [] };
      const { record, isSeen } = current;
      if (event.failure === undefined) {
        const pending = state.pending.filter(({ id }) => id !== record.id);
        return showNext({ ...state, pending }, now, note(now, CHOICES[event.choice][2], record));
      }
      return {
        state: { ...state, current: { record, shownAt: now, isSeen: isSeen === true } },
        lines: [`${note(now, "decision failed:", record)}: ${event.failure}`],
      };
    }
    case "key":
      return takeKey(state, event);
    default:
      return event satisfies never;
  }
}

function takeKey(state: WatchState, { key, now, screen }: WatchEvent & { readonly kind: "key" }): WatchStep {
  // In raw mode, the terminal delivers Ctrl-C and Ctrl-D as characters.
  if (key === "q" || key === "\x03" || key === "\x04") return { state, lines: [], action: { kind: "quit" } };
  const { current } = state;
  if (current === undefined || now - current.shownAt < READING_MS) return { state, lines: [] };
  const { record, asked } = current;
  const then = (change: Partial<WatchState>): WatchStep => ({
    state: { ...state, notice: undefined, ...change },
    lines: [],
  });
  if (asked !== undefined) {
    if (key !== "y" || asked === "sent") {
      return then({ current: { ...current, asked: undefined }, notice: "no decision" });
    }
    const shown: Shown = [record.id, ...record.joined ?? []];
    return {
      ...then({ current: { ...current, asked: "sent" } }),
      action: { kind: "decide", shown, choice: asked },
    };
  }
  const { page, pages } = layOut(current, screen);
  if (key === "a" || key === "d" || key === "l") {
    return key === "d" || pages === 0 || current.isSeen === true
      ? then({ current: { ...current, asked: key } })
      : then({ notice: "Press v until the last page before you approve." });
  }
  if (key === "v" && pages > 0) {
    const viewed = { ...screen, page: (page + 1) % (pages + 1) };
    const isSeen = current.isSeen === true || viewed.page === pages;
    return then({ current: { ...current, viewed, isSeen } });
  }
  if (key !== "s") return then({ notice: HELP });
  const again = `; to see it again: broker-ctl approval show ${record.id}`;
  const skipped = new Set([...state.skipped, record.id]);
  return showNext({ ...state, skipped }, now, `${note(now, "skipped", record)}${again}`);
}

/** Shows the next request, after a line about the previous one. */
function showNext(state: WatchState, now: number, ...lines: readonly string[]): WatchStep {
  const record = state.pending.find(({ id }) => !state.skipped.has(id));
  const current: Current | undefined = record === undefined ? undefined : { record, shownAt: now };
  return { state: { ...state, current, notice: undefined }, lines };
}
