import assert from "node:assert/strict";
import { readRecord } from "../runs/record.ts";
import { formatRun } from "./runs_text.ts";

const CAUSE =
  "H-1: The price cache that 4.12.0 introduced is never emptied, and grows until the process is killed";

function shown(outcome: "cause" | "no_confident_cause"): string {
  const record = readRecord("1".repeat(32), {
    topic: "slow",
    status: "completed",
    events: [],
    conclusion: { outcome, confidence: 0.6, cause: CAUSE },
  });
  assert.ok(record !== undefined);
  return formatRun(record, { width: 60 });
}

Deno.test("formatRun() shows the whole cause, and calls a candidate one", () => {
  const text = shown("cause");
  assert.ok(text.replace(/\s+/g, " ").includes(`Cause ${CAUSE}`), text);
  assert.ok(text.split("\n").every((line) => line.length <= 60), text);
  assert.match(shown("no_confident_cause"), /\nOutcome +no confident cause\nCandidate +H-1: The price/);
});
