/**
 * The header of a run that begins, the same for runs of the server and of the command line.
 *
 * @module
 */
import type { RunEfforts, RunHeader, RunModels } from "./record.ts";

/** What is known of a run when it begins. */
interface BeginningRun {
  readonly runId: string;
  readonly topic: string;
  /** Milliseconds since the epoch. */
  readonly startedAt: number;
  readonly models: RunModels;
  readonly efforts: RunEfforts;
  readonly template: string;
  readonly language: string;
  readonly isSampled: boolean;
  readonly parent: { readonly runId: string; readonly topic: string } | undefined;
}

export function beginHeader(run: BeginningRun): RunHeader {
  const { runId, topic, startedAt, models, efforts, template, language, isSampled, parent } = run;
  return {
    run_id: runId,
    topic,
    timestamp: new Date(startedAt).toISOString(),
    models,
    reasoning_effort: efforts,
    template,
    language,
    ...(isSampled && { mode: "sample_then_debate" as const }),
    parent_run_id: parent?.runId ?? null,
    ...(parent !== undefined && { parent_topic: parent.topic }),
    status: "running",
    schema_version: 1,
  };
}
