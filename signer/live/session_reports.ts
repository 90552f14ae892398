import { type ListedSession, REPORT_SECONDS, type SessionReport } from "@gateway/shared/wire";

/** The largest number of sessions of one caller, and of all callers. The oldest reports are dropped first. */
export const REPORTED_LIMITS = { ofCaller: 1000, total: 10_000 } as const;
/** A report that the broker has not renewed in this time is dropped. */
const VALID_MS = 4 * REPORT_SECONDS * 1000;

interface Kept extends Pick<SessionReport, "sessions"> {
  readonly caller: string;
  readonly at: number;
}

/** The open sessions that brokers have reported. They are in memory, and no decision depends on them. */
export class SessionReports {
  /** By caller and instance, the oldest first. */
  readonly #reports = new Map<string, Kept>();

  put(caller: string, { instance, sessions }: SessionReport, now: number): void {
    const key = JSON.stringify([caller, instance]);
    this.#reports.delete(key);
    if (sessions.length > 0) this.#reports.set(key, { caller, sessions, at: now });
    this.#expire(now);
    this.#limit((report) => report.caller === caller, REPORTED_LIMITS.ofCaller);
    this.#limit(() => true, REPORTED_LIMITS.total);
  }

  /** The sessions of all reports, the oldest first. */
  list(now: number): readonly ListedSession[] {
    this.#expire(now);
    return [...this.#reports.values()]
      .flatMap(({ caller, sessions }) => sessions.map((session) => ({ caller, ...session })))
      .sort((left, right) => left.opened_at < right.opened_at ? -1 : 1);
  }

  #expire(now: number): void {
    // The clock can be set back.
    for (const [key, { at }] of this.#reports) if (Math.abs(now - at) >= VALID_MS) this.#reports.delete(key);
  }

  #limit(counts: (report: Kept) => boolean, most: number): void {
    const counted = [...this.#reports].filter(([, report]) => counts(report));
    let left = counted.reduce((sum, [, { sessions }]) => sum + sessions.length, 0);
    for (const [key, { sessions }] of counted) {
      if (left <= most) return;
      left -= sessions.length;
      this.#reports.delete(key);
    }
  }
}
