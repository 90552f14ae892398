import assert from "node:assert/strict";
import { formatAge, percent } from "../page/format.ts";
import { passes, severityTone, stateOf, STATES } from "../page/run_list.ts";
import { sentenceOf } from "../page/summary.ts";
import type { ListedRun } from "../page/views.ts";

const conclusion = (outcome: string | null) => ({ cause: "H-1: the pool", confidence: 0.9, outcome });

Deno.test.each<{ run: Parameters<typeof stateOf>[0]; state: string }>([
  { run: { status: "running" }, state: "accent Running" },
  { run: { status: "running", waits_for: "approval" }, state: "warn Waits for you" },
  { run: { status: "completed", conclusion: conclusion("cause") }, state: "good Cause found" },
  {
    run: { status: "completed", conclusion: conclusion("no_confident_cause") },
    state: "warn No confident cause",
  },
  { run: { status: "completed", conclusion: conclusion(null) }, state: "idle Completed" },
  { run: { status: "cancelled", conclusion: conclusion("cause") }, state: "idle Stopped" },
  { run: { status: "interrupted", waits_for: "approval" }, state: "warn Interrupted" },
  { run: { status: "error" }, state: "bad Failed" },
  { run: { status: "completed", conclusion: conclusion("cause"), imported: true }, state: "idle Imported" },
  { run: { status: "of_tomorrow" }, state: "idle Unknown" },
  { run: { status: null, conclusion: null }, state: "idle Unknown" },
])("stateOf() shows $run as $state", ({ run, state }) => {
  const { tone, text } = STATES[stateOf(run)];
  assert.equal(`${tone} ${text}`, state);
});

const RUN = {
  run_id: "ab".repeat(16),
  title: "Checkout is slow",
  topic: null,
  status: "completed",
  models: { diagnostic: "hub/One", skeptic: "hub/two" },
  conclusion: conclusion("cause"),
} as Partial<ListedRun> as ListedRun;

Deno.test.each([
  { name: "no filter", kept: true },
  { name: "all words in any order", search: "SLOW  checkout", kept: true },
  { name: "a word of the cause", search: "pool", kept: true },
  { name: "a model in the search", search: "hub/one", kept: true },
  { name: "one word too many", search: "checkout disk", kept: false },
  { name: "its outcome", state: "cause", kept: true },
  { name: "another outcome", state: "no_confident_cause", kept: false },
  { name: "runs that stopped", state: "cancelled", kept: false },
  { name: "imported runs", state: "imported", kept: false },
])("passes() with $name: $kept", ({ kept, search = "", state = "" }) => {
  assert.equal(passes(RUN, search, state), kept);
});

Deno.test("severityTone() knows the usual words, and no color for others", () => {
  assert.deepEqual(["Critical", "P1", "warning", "info", ""].map(severityTone), [
    "bad",
    "bad",
    "warn",
    "idle",
    "idle",
  ]);
});

Deno.test.each([
  { said: "H-12: {component: pool; mechanism: leak} The pool leaks. More.", sentence: "The pool leaks." },
  { said: "1: The pool", sentence: "The pool" },
  { said: "Redis: out of memory", sentence: "Redis: out of memory" },
  { said: "", sentence: "" },
])("sentenceOf($said)", ({ said, sentence }) => {
  assert.equal(sentenceOf(said), sentence);
});

Deno.test("formatAge() rounds down, and is empty for an unknown time", () => {
  const now = Date.parse("2026-01-02T03:04:05Z");
  const ages = ["2026-01-02T03:04:05Z", "2026-01-02T03:02:10Z", "2025-12-31T00:00:00Z", "x", null]
    .map((time) => formatAge(time, now));
  assert.deepEqual(ages, ["now", "1 minute ago", "2 days ago", "", ""]);
  assert.deepEqual([0.934, undefined].map(percent), ["93%", "unknown"]);
});
