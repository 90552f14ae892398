import assert from "node:assert/strict";
import {
  beginSummary,
  causeOf,
  dollarsOf,
  isLater,
  leadOf,
  ranked,
  type Summary,
  tell as tellEvent,
  type TimedEvent,
  timeLeft,
  titleOf,
  tokensOf,
  verdictOf,
} from "../page/summary.ts";

/** The events have only the fields that this test needs. */
const tell = (summary: Summary, event: object) => tellEvent(summary, event as TimedEvent);

const POOL = { id: "H-1", text: "The pool leaks. More.", state: "active", probability: 0.4 };
const DISK = { id: "H-2", text: "The disk is full", state: "active", probability: 0.7 };
const CACHE = { id: "H-3", text: "The cache", state: "rejected", probability: 0.9 };

function summaryOf(...events: readonly object[]) {
  const summary = beginSummary();
  for (const event of events) tell(summary, event);
  return summary;
}

const update = (round: number, ...hypotheses: readonly object[]) => ({
  type: "hypothesis_update",
  node: "diagnostic_agent",
  round,
  hypotheses,
});
const decide = (grounding: object | undefined, leading_hypothesis = "H-1: pool") => ({
  type: "moderator_decision",
  round: 1,
  decision: { status: "final_diagnosis", confidence: 0.6, leading_hypothesis, grounding },
});

Deno.test.each([
  { name: "no events", events: [], status: "running", title: "No cause yet", tone: "accent" },
  {
    name: "undecided",
    events: [decide({ outcome: null })],
    status: "running",
    title: "Undecided so far",
    tone: "accent",
  },
  {
    name: "found",
    events: [decide({ outcome: "cause" })],
    status: "completed",
    title: "Cause found",
    tone: "good",
  },
  {
    name: "not sure",
    events: [decide({ outcome: "no_confident_cause" })],
    status: "completed",
    title: "No confident cause",
    tone: "warn",
  },
  {
    name: "a run from before evidence was checked",
    events: [decide(undefined)],
    status: "completed",
    title: "Stated by the moderator; the evidence was not checked",
    tone: "warn",
  },
  {
    name: "failed",
    events: [{ type: "error", message: "The model is gone" }],
    status: "error",
    title: "The run failed",
    tone: "bad",
  },
  {
    name: "stopped",
    events: [decide({ outcome: null })],
    status: "cancelled",
    title: "The run was stopped",
    tone: "warn",
  },
])("the verdict of a run: $name", ({ events, status, title, tone }) => {
  assert.deepEqual(verdictOf(summaryOf(...events), status), { title, tone });
});

Deno.test("the leading hypothesis is the moderator's choice, or otherwise the likeliest open one", () => {
  const early = summaryOf(update(1, POOL, DISK, CACHE));
  assert.equal(leadOf(early)?.id, "H-2");
  assert.equal(causeOf(early), "The disk is full");
  tell(early, decide({ hypothesis_id: "H-1", outcome: null }));
  assert.equal(causeOf(early), "The pool leaks.");
  assert.deepEqual(ranked(early).map(({ id }) => id), ["H-1", "H-2", "H-3"]);
  tell(early, decide({ hypothesis_id: null, outcome: "no_confident_cause" }, "gremlins"));
  assert.equal(leadOf(early), undefined);
  assert.equal(causeOf(early), "gremlins");
});

Deno.test("every change of the hypotheses is kept", () => {
  const { frames } = summaryOf(update(1, POOL), update(2, POOL, DISK));
  assert.deepEqual(frames.map(({ round, hypotheses }) => [round, hypotheses.length]), [[1, 1], [2, 2]]);
});

Deno.test("a pending request ends with its decision or with the run", () => {
  const waiting = summaryOf(
    { type: "tool_approval_request", call_id: "a" },
    { type: "tool_approval_request", call_id: "b" },
    { type: "tool_approval_resolved", call_id: "a" },
    { type: "awaiting_user_input", timestamp: "2026-01-02T03:04:05Z" },
    { type: "model_waiting", seconds: 20 },
  );
  assert.deepEqual([[...waiting.approvals.keys()], waiting.pausedAt], [["b"], "2026-01-02T03:04:05Z"]);
  tell(waiting, { type: "model_waiting", seconds: 40 });
  assert.deepEqual([waiting.limited?.seconds, waiting.limited?.tries], [40, 2]);
  tell(waiting, { type: "run_finished" });
  assert.deepEqual([waiting.approvals.size, waiting.pausedAt, waiting.limited], [0, undefined, undefined]);
});

Deno.test("titleOf() truncates the first line, and timeLeft() returns no end without a start", () => {
  assert.equal(titleOf("\n# Payments fail\nsince noon"), "Payments fail");
  assert.ok(titleOf("long word ".repeat(30)).length <= 92);
  assert.equal(timeLeft("2026-01-02T03:04:05Z", 300, Date.parse("2026-01-02T03:05:05Z")), 240_000);
  assert.equal(timeLeft(undefined, 300, 0), undefined);
});

Deno.test("the cause omits the claim if a sentence follows it", () => {
  const claim = "{component: pool; fault: resource_leak; path: a > b}";
  const cause = (text: string) => causeOf(summaryOf(update(1, { ...POOL, text })));
  assert.equal(cause(`${claim} The pool leaks. More.`), "The pool leaks.");
  assert.equal(cause(claim), claim);
});

const SKEPTIC = { agent_node: "skeptic_agent", agent_role: "Skeptical Reviewer" };
const TURN = { type: "agent_turn_started", ...SKEPTIC, timestamp: "2026-01-02T03:04:05Z" };
const ASKED = { type: "tool_approval_request", ...SKEPTIC, call_id: "c", tool_name: "http_get", args: {} };
const since = TURN.timestamp;

Deno.test.each([
  { name: "an agent in its turn", events: [TURN], doing: { node: "skeptic_agent", since } },
  { name: "nobody while a call waits for approval", events: [TURN, ASKED], doing: undefined },
  {
    name: "the agent with its tool",
    events: [TURN, { type: "tool_call_started", ...SKEPTIC, tool_name: "http_get", timestamp: since }],
    doing: { node: "skeptic_agent", since, tool: "http_get" },
  },
  {
    name: "the moderator after the rebuttal",
    events: [{ type: "agent_skipped", node: "diagnostic_rebuttal_agent", timestamp: since }],
    doing: { node: "moderator_agent", since },
  },
  { name: "nobody after the end", events: [TURN, { type: "run_finished" }], doing: undefined },
])("the summary says who speaks: $name", ({ events, doing }) => {
  assert.deepEqual(summaryOf(...events).doing, doing);
});

Deno.test("the streamed text is that of one turn", () => {
  const [one, other] = ["Primary Diagnosis", "Skeptical Reviewer"];
  const delta = (agent_role: string, text: string) => ({ type: "agent_delta", agent_role, delta: text });
  const liveAfter = (...events: readonly object[]) => summaryOf(...events).live;
  assert.deepEqual(liveAfter(delta(one, "a"), delta(one, "b")), { role: one, text: "ab" });
  assert.deepEqual(liveAfter(delta(one, "a"), delta(other, "b")), { role: other, text: "b" });
  assert.deepEqual(liveAfter(delta(one, "a"), { type: "agent_turn_started", agent_role: one }), {
    role: one,
    text: "",
  });
  for (const type of ["agent_completed", "agent_reasoning", "tool_call_started", "run_finished"]) {
    assert.equal(liveAfter(delta(one, "a"), { type }), undefined, type);
  }
});

Deno.test.each([
  { name: "the next event", id: "13", than: "12", later: true },
  { name: "the same event again", id: "12", than: "12", later: false },
  { name: "an event that is not stored", id: "12.1", than: "12", later: true },
  { name: "the next one after it", id: "12.10", than: "12.9", later: true },
  { name: "a stored event after it", id: "13", than: "12.10", later: true },
  { name: "an older one", id: "9.5", than: "12", later: false },
])("isLater() orders $name", ({ id, than, later }) => {
  assert.equal(isLater(id, than), later);
});

Deno.test("a pause for a rate limit ends with the first text, and a failure keeps the provider's words", () => {
  const summary = summaryOf({ type: "model_waiting", seconds: 5 }, {
    type: "agent_delta",
    ...SKEPTIC,
    delta: "x",
  });
  assert.equal(summary.limited, undefined);
  tell(summary, { type: "error", message: "The model is gone" });
  assert.equal(summary.problem, "The model is gone");
});

Deno.test("an approval for the whole run is known until it is revoked or the run ends", () => {
  const asked = (call_id: string) => ({ type: "tool_approval_request", call_id, tool_name: "x", args: {} });
  const answered = (call_id: string) => ({
    type: "tool_approval_resolved",
    call_id,
    approved: true,
    for_run: true,
  });
  const summary = summaryOf(asked("a"), answered("a"), asked("b"), answered("b"), answered("unknown"));
  assert.deepEqual([...summary.allowed.keys()], ["a", "b"]);
  tell(summary, { type: "tool_approval_revoked", call_id: "a" });
  assert.deepEqual([...summary.allowed.keys()], ["b"]);
  tell(summary, { type: "run_finished", status: "completed" });
  assert.equal(summary.allowed.size, 0);
});

Deno.test("an imported run is always shown as imported", () => {
  const summary = beginSummary(true);
  tell(summary, decide({ outcome: "cause" }));
  assert.match(verdictOf(summary, "completed").title, /^Imported/);
});

Deno.test("list and answer show the same tokens and costs and mark estimates", () => {
  assert.deepEqual(
    [{ total_tokens: 47_185 }, { total_tokens: 47_185, estimated: true }, { total_tokens: 0 }, {}, undefined]
      .map(
        tokensOf,
      ),
    ["47,185 tokens", "about 47,185 tokens", "", "", ""],
  );
  assert.equal(dollarsOf(0.0034), "$0.0034");
});
