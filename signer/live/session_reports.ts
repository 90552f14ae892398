import type { ListedSession, SessionReport } from "@gateway/shared/wire";

/** The largest number of sessions of one caller, and of all callers. The oldest reports are dropped first. */
export const REPORTED_LIMITS = { ofCaller: 1000, total: 10_000 } as const;

/** A report that the broker has not renewed in this time is not listed. */
const VALID_MS = 60_000;

/** The open sessions that brokers have reported. They are in memory, and no decision depends on them. */
export class SessionReports {
  /** By caller and instance, the oldest first. */
  readonly #reports = new Map<string, SessionReport & { readonly caller: string; readonly at: number }>();

  put(caller: string, report: SessionReport, now: number): void {
    const key = JSON.stringify([caller, report.instance]);
    this.#reports.delete(key);
    if (report.sessions.length > 0) this.#reports.set(key, { ...report, caller, at: now });
    let [own, total] = [0, 0];
    // The newest first, so that the limits drop the oldest.
    for (const [key, { caller: each, sessions: { length: count } }] of [...this.#reports].toReversed()) {
      const isOver = each === caller && own + count > REPORTED_LIMITS.ofCaller ||
        total + count > REPORTED_LIMITS.total;
      if (isOver) this.#reports.delete(key);
      else [own, total] = [own + (each === caller ? count : 0), total + count];
    }
  }

  /** The sessions of all reports, the oldest first. */
  list(now: number): readonly ListedSession[] {
    // The clock can be set back.
    return [...this.#reports.values()].filter(({ at }) => Math.abs(now - at) < VALID_MS)
      .flatMap(({ caller, sessions }) => sessions.map((session) => ({ caller, ...session })))
      .sort((left, right) => left.opened_at < right.opened_at ? -1 : 1);
  }
}
