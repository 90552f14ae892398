import type { AuditEntry } from "@gateway/shared/audit";
import { AppError, errorText } from "@gateway/shared/errors";
import type { Events } from "./events.ts";

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
