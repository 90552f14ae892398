import assert from "node:assert/strict";
import type { TimedEvent } from "../page/summary.ts";
import { beginThread, chartOf, extendThread } from "../page/thread.ts";

const ROLES = { diagnostic_agent: "Primary Diagnosis", skeptic_agent: "Skeptical Reviewer" } as const;
type Node = keyof typeof ROLES;

const speak = (node: Node, content: string, total_tokens?: number) => ({
  type: "agent_completed",
  node,
  role: ROLES[node],
  content,
  total_tokens,
});
const act = (type: string, call_id: string, node: Node = "diagnostic_agent", more: object = {}) => ({
  type,
  call_id,
  agent_node: node,
  agent_role: ROLES[node],
  tool_name: "http_get",
  args: {},
  ...more,
});

/** Reads events as they are sent: as JSON. */
function threadOf(...batches: readonly (readonly unknown[])[]) {
  const thread = beginThread();
  const events: TimedEvent[] = [];
  for (const batch of batches) {
    events.push(...JSON.parse(JSON.stringify(batch)));
    extendThread(thread, events);
  }
  return thread;
}

/** The rows in short. */
function outline({ rows }: ReturnType<typeof threadOf>): readonly string[] {
  return rows.map((row) => {
    switch (row.kind) {
      case "round":
        return `round ${row.round}`;
      case "turn": {
        const parts = row.parts.map((part) =>
          part.kind === "said"
            ? part.text
            : part.kind === "event"
            ? part.event.type
            : part.calls.map(({ type, call_id }) => `${type}:${call_id}`).join("+")
        );
        return `${row.node}: ${parts.join(", ")}${row.isDone ? "." : ""}`;
      }
      case "event":
        return row.event.type;
      default:
        return `unknown ${row.type}`;
    }
  });
}

Deno.test("a turn has the texts and the grouped calls of an agent until another one speaks", () => {
  const thread = threadOf(
    [
      { type: "run_started", round: 1 },
      { type: "agent_turn_started", agent_node: "diagnostic_agent", agent_role: "Primary Diagnosis" },
      { ...act("agent_reasoning", ""), content: "I look." },
      act("tool_approval_request", "a"),
      act("tool_call_started", "b"),
    ],
    [
      act("tool_call", "b", "diagnostic_agent", { number: 1 }),
      { type: "model_waiting", node: "diagnostic_agent", model: "m", seconds: 3 },
      act("tool_call", "a", "diagnostic_agent", { number: 2 }),
      speak("diagnostic_agent", "So.", 100),
      act("tool_call_started", "c", "skeptic_agent"),
      { type: "moderator_decision", round: 2, total_tokens: 150, decision: {} },
      speak("diagnostic_agent", "Again.", 190),
      { type: "user_comment", content: "" },
      { type: "user_comment", content: "look", round: 2 },
      { type: "run_finished", status: "completed" },
    ],
  );
  assert.deepEqual(outline(thread), [
    "round 1",
    "diagnostic_agent: I look., tool_call:a+tool_call:b, model_waiting, So..",
    "skeptic_agent: tool_call_started:c.",
    "moderator_decision",
    "round 2",
    "diagnostic_agent: Again..",
    "user_comment",
  ]);
  assert.deepEqual(thread.rows.map((row) => row.kind === "turn" ? row.tokens : null), [
    null,
    100,
    undefined,
    null,
    null,
    40,
    null,
  ]);
  assert.deepEqual([...thread.calls].map(([number, { call_id }]) => [number, call_id]), [[1, "b"], [2, "a"]]);
});

Deno.test("a row stays the same object until it changes", () => {
  const first = [
    { type: "run_started", round: 1 },
    speak("diagnostic_agent", "a"),
    act("tool_call_started", "a"),
  ];
  const thread = threadOf(first);
  const before = [...thread.rows];
  extendThread(thread, [...first, act("tool_call", "a")] as unknown as TimedEvent[]);
  assert.deepEqual(thread.rows.map((row, index) => row === before[index]), [true, true, false]);
});

Deno.test("a broken or unknown event hides no other event", () => {
  const thread = threadOf([
    null,
    { type: "telepathy" },
    { type: "toString" },
    {},
    speak("diagnostic_agent", "Still here."),
    act("tool_call", "x", "diagnostic_agent", { number: "1" }),
    act("tool_call", "x"),
    { type: "moderator_decision" },
    speak("skeptic_agent", "", 100),
  ]);
  assert.deepEqual(outline(thread), [
    "unknown ",
    "unknown telepathy",
    "unknown toString",
    "unknown ",
    "diagnostic_agent: Still here..",
    "diagnostic_agent: tool_call:x+tool_call:x.",
    "moderator_decision",
    "skeptic_agent: .",
  ]);
  assert.deepEqual(thread.rows.flatMap((row) => row.kind === "turn" ? row.tokens ?? 0 : []), [0, 0, 100]);
});

const LINE = { label: "a", points: [[1, 2], [2, 3]] };

Deno.test.each([
  { name: "no chart", chart: undefined, expected: undefined },
  { name: "text", chart: "x", expected: undefined },
  { name: "no series", chart: { series: [] }, expected: undefined },
  {
    name: "broken series",
    chart: { series: [null, 1, { points: 1 }, { points: [[1]] }] },
    expected: undefined,
  },
  {
    name: "points that are no numbers",
    chart: { unit: 1, series: [{ label: 5, points: [[1, "2"], [1, null], [2, 3], 4] }] },
    expected: { unit: undefined, series: [{ label: "5", points: [[2, 3]] }] },
  },
  {
    name: "too many series",
    chart: { unit: "s", series: Array.from({ length: 20 }, () => LINE) },
    expected: { unit: "s", series: Array.from({ length: 8 }, () => LINE) },
  },
])("chartOf() reads $name", ({ chart, expected }) => {
  assert.deepEqual(chartOf({ chart }), expected);
});
