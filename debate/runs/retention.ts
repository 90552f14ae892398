/**
 * Deletes runs that are older than the operator wants to keep. The log of tool calls stays.
 *
 * @module
 */
import { type Clock, every } from "@gateway/shared/clock";
import { errorName } from "@gateway/shared/errors";
import type { RunStore } from "./store.ts";

/** What is kept, and how that is looked after. */
export interface Retention {
  readonly store: Pick<RunStore, "list" | "delete">;
  /** 0: everything is kept. */
  readonly days: number;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** Writes to the operator's log. */
  readonly tell: (message: string) => void;
}

const HOUR_SECONDS = 3600;
const DAY_MS = 86_400_000;

/** Looks at once and then every hour, until the signal is aborted; never rejects. */
export async function retain(retention: Retention): Promise<void> {
  const { days, clock, signal } = retention;
  if (days === 0) return;
  await expire(retention);
  await every({ clock, seconds: HOUR_SECONDS, signal }, () => expire(retention));
}

/** A run that is in progress, or does not say when it was, is kept. */
async function expire({ store, days, clock, signal, tell }: Retention): Promise<void> {
  let deleted = 0;
  try {
    const oldest = clock.now() - days * DAY_MS;
    for (const { run_id, status, finished_at, timestamp } of await store.list()) {
      if (signal.aborted) return;
      const time = Date.parse(finished_at ?? timestamp ?? "");
      if (status === "running" || status === null || !(time < oldest)) continue;
      await store.delete(run_id);
      deleted += 1;
    }
  } catch (error) {
    tell(`cannot delete old runs: ${errorName(error)}`);
  }
  if (deleted > 0) tell(`deleted ${deleted} ${deleted === 1 ? "run" : "runs"} older than ${days} days`);
}
