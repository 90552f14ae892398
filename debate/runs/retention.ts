import { type Clock, every } from "@gateway/shared/clock";
import { errorName } from "@gateway/shared/errors";
import type { RunStore } from "./store.ts";

interface Retention {
  readonly store: Pick<RunStore, "list" | "expire">;
  readonly days: number;
  readonly clock: Clock;
  readonly signal: AbortSignal;
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

/** A run that cannot be removed keeps none of the others. */
async function expire({ store, days, clock, signal, tell }: Retention): Promise<void> {
  let deleted = 0;
  const failures = new Map<string, number>();
  const failed = (error: unknown) =>
    failures.set(errorName(error), (failures.get(errorName(error)) ?? 0) + 1);
  const before = clock.now() - days * DAY_MS;
  const runs = await store.list().catch((error) => {
    failed(error);
    return [];
  });
  for (const { run_id } of runs) {
    if (signal.aborted) return;
    try {
      if (await store.expire(run_id, before)) deleted += 1;
    } catch (error) {
      failed(error);
    }
  }
  for (const [name, count] of failures) {
    tell(`cannot delete old runs: ${name}${count === 1 ? "" : ` (${count} times)`}`);
  }
  if (deleted === 0) return;
  tell(
    `deleted ${deleted} ${deleted === 1 ? "run" : "runs"} older than ${days} ${days === 1 ? "day" : "days"}`,
  );
}
