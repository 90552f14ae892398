import type { AuditEntry } from "@gateway/shared/audit";
import { AppError, errorText } from "@gateway/shared/errors";
import type { WireDecision } from "@gateway/shared/wire";

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

interface AuditedStep {
  /** The record of a failure; its outcome is `error` unless it says otherwise. */
  readonly entry: Omit<AuditEntry, "outcome"> & Partial<Pick<AuditEntry, "outcome">>;
  readonly signal: AbortSignal;
}

/** Takes a step and records its failure. An aborted signal whose reason is a fault says what to tell. */
export async function audited<T>(
  events: Events,
  { entry, signal }: AuditedStep,
  step: () => Promise<T>,
): Promise<T> {
  try {
    return await step();
  } catch (cause) {
    const error = signal.aborted ? canceledBy(signal, cause) : cause;
    await events.bestEffort({
      outcome: "error",
      ...entry,
      err: errorText(error),
    });
    throw error;
  }
}

/** What ended a step that was under way. */
export function canceledBy({ reason }: AbortSignal, cause?: unknown): AppError {
  // Who canceled, the agent or its connection, makes no difference to anybody who looks for it in the log.
  const says = reason instanceof AppError && reason.code !== "canceled";
  return says ? reason : new AppError("canceled", "canceled", { cause });
}

/** The fields of a record that name the rule and the warning of a decision. */
export function describeDecision(
  decision: WireDecision | undefined,
): Pick<AuditEntry, "policy_rule" | "warning"> {
  return { policy_rule: decision?.matched_rule ?? "", warning: decision?.warning ?? "" };
}

/** Records the decision of a dry run. */
export async function recordPreview(
  events: Pick<Events, "bestEffort">,
  entry: Omit<AuditEntry, "outcome">,
  decision: WireDecision,
): Promise<void> {
  const outcome = decision.allowed ? "dry_run_allowed" : "dry_run_denied";
  await events.bestEffort({ ...entry, ...describeDecision(decision), outcome });
}
