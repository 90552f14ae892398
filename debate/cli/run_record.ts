/**
 * The record of a run of the command line, in the same form as those that the web server stores.
 *
 * @module
 */
import type { DebateOutcome, DebateSetup } from "../engine/ports.ts";
import type { CostEstimate, RunEvent } from "../engine/events.ts";
import type { CollectedContext } from "../context/collect.ts";
import { recordOf } from "../runs/fold.ts";
import { beginHeader } from "../runs/header.ts";
import { beginRecord, type RunRecord, type StoredEvent } from "../runs/record.ts";

interface RecordParts {
  readonly setup: DebateSetup;
  readonly context: CollectedContext;
  readonly events: readonly StoredEvent[];
  /** Milliseconds since the epoch. */
  readonly startedAt: number;
  readonly parent: { readonly runId: string; readonly topic: string } | undefined;
}

/** The events that end a run. */
export function endingEvents(outcome: DebateOutcome, cost: CostEstimate): readonly RunEvent[] {
  const { status, error, usage } = outcome;
  return [
    ...(status === "cancelled" ? [{ type: "run_cancelled" } as const] : []),
    ...(status === "error" ? [{ type: "error", message: error ?? "The run failed" } as const] : []),
    { type: "run_finished", status, token_totals: usage, cost_estimate: cost },
  ];
}

export function toRecord(
  { setup, context, events, startedAt, parent }: RecordParts,
): RunRecord {
  const { models, efforts } = setup;
  const header = beginHeader({
    runId: setup.runId,
    topic: setup.topic,
    startedAt,
    models: { diagnostic: models.diagnostic.id, skeptic: models.skeptic.id, moderator: models.moderator.id },
    efforts,
    template: setup.template.name,
    language: setup.language,
    isSampled: setup.sampling !== undefined,
    parent,
  });
  return recordOf(beginRecord(header, context), events);
}
