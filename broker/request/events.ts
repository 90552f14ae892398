import type { AuditEntry } from "@gateway/shared/audit";

/** What happened, for the audit log and the counters. */
export interface Events {
  /**
   * Records what may not have an effect unrecorded.
   *
   * @throws {AppError} `audit_unavailable` when it can't be recorded and the fail mode is closed
   */
  require(entry: AuditEntry): Promise<void>;
  /** Records what nothing hangs on: refusals, errors, dry runs. */
  bestEffort(entry: AuditEntry): Promise<void>;
}

/** Wraps the audit gate so that each event is also counted by outcome, recorded or not. */
export function countEvents(events: Events, count: (outcome: string) => void): Events {
  return {
    async require(entry) {
      try {
        await events.require(entry);
      } finally {
        count(entry.outcome);
      }
    },
    async bestEffort(entry) {
      await events.bestEffort(entry);
      count(entry.outcome);
    },
  };
}
