import { type Clock, systemClock } from "@gateway/shared/clock";
import { AppError } from "@gateway/shared/errors";
import { visibleText } from "@gateway/shared/text";
import type { ApprovalRecord } from "@gateway/shared/wire";
import type { CommandContext } from "../context.ts";
import { HintedError } from "../output.ts";
import { NOTHING_WATCHED, type Shown, watch, type WatchEvent, type WatchState } from "../watch/watch.ts";

const POLL_MS = 1_000;

/** What of the control plane is watched, and how it is told a decision. */
export interface Watched {
  readonly pending: () => Promise<readonly ApprovalRecord[]>;
  /** @returns what to say of it */
  readonly decide: (shown: Shown, approve: boolean) => Promise<string>;
}

export const WATCH_EXAMPLES = `
Examples:
  broker-ctl approval watch

Shows each request that waits, all of it, one after another: a allows and d denies it, after a second key, s leaves it
for later, q quits. A key is about the request that was shown last, never about one that comes while you read; one that
comes too soon after it was shown counts for nothing. To learn, or to give a reason: broker-ctl approval allow.
`;

/**
 * Watches until the one at the terminal quits, or the context's signal ends it.
 *
 * @throws {AppError} `invalid_request` without a terminal
 */
export async function watchApprovals(
  { terminal, keys, signal }: CommandContext,
  { pending, decide }: Watched,
  clock: Clock = systemClock,
): Promise<void> {
  if (keys === undefined) {
    throw new HintedError(
      new AppError("invalid_request", "Cannot watch: standard input is no terminal"),
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
