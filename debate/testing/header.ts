import type { RunHeader } from "../runs/record.ts";

/** The header of a started run. */
export const HEADER: RunHeader = {
  run_id: "a".repeat(32),
  topic: "checkout answers slowly",
  timestamp: "2026-01-02T03:04:05.000Z",
  models: { diagnostic: "hub/a", skeptic: "hub/b", moderator: "hub/c" },
  reasoning_effort: { diagnostic: "none", skeptic: "none", moderator: "none" },
  template: "default",
  language: "en",
  parent_run_id: null,
  status: "running",
  schema_version: 1,
};
