import assert from "node:assert/strict";
import type { TimedEvent } from "../page/summary.ts";
import { beginThread, extendThread } from "../page/thread.ts";

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
        const parts = row.events.map((event) =>
          "content" in event
            ? event.content
            : "call_id" in event
            ? `${event.type}:${event.call_id}`
            : event.type
        );
        return `${row.role}: ${parts.join(", ")}${row.isDone ? "." : ""}`;
      }
      default:
        return row.event?.type ?? "none";
    }
  });
}

Deno.test("a turn has the texts and the calls of an agent until another one speaks", () => {
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
    "Primary Diagnosis: I look., tool_call:a, tool_call:b, model_waiting, So..",
    "Skeptical Reviewer: tool_call_started:c.",
    "Moderator: moderator_decision.",
    "round 2",
    "Primary Diagnosis: Again..",
    "Operator: look.",
  ]);
  assert.deepEqual(thread.rows.map((row) => row.kind === "turn" ? row.tokens : null), [
    null,
    100,
    undefined,
    50,
    null,
    40,
    undefined,
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
    "none",
    "telepathy",
    "toString",
    "none",
    "Primary Diagnosis: Still here..",
    "Primary Diagnosis: tool_call:x, tool_call:x.",
    "Moderator: moderator_decision.",
    "Skeptical Reviewer: .",
  ]);
  assert.deepEqual(thread.rows.flatMap((row) => row.kind === "turn" ? row.tokens ?? 0 : []), [0, 0, 0, 100]);
});
