import assert from "node:assert/strict";
import type { Evidence, Hypothesis, Review } from "../../engine/graph/state.ts";
// The page's own module; it needs no browser.
import { mapOf, SIZE } from "../page/map_layout.js";

const line = (status: Evidence["status"], ...call_ids: string[]): Evidence => (
  { text: "", round: 2, status, call_ids }
);
const review = (verdict: Review["verdict"]): Review => (
  {
    round: 3,
    agent: "skeptic_agent",
    verdict,
    probability: null,
    reason: "",
    evidence: [],
    new_evidence: false,
  }
);
const hypothesis = (id: string, more: Partial<Hypothesis> = {}): Hypothesis => ({
  id,
  text: "",
  state: "active",
  proposer: "diagnostic_agent",
  round: 1,
  supporting_evidence: [],
  evidence: [],
  reviews: [],
  rejected_reason: null,
  probability: null,
  transitions: [],
  ...more,
});

Deno.test("the map has a node for the incident, each hypothesis, each cited call and each objection", () => {
  const one = hypothesis("H-1", {
    evidence: [line("grounded", "a"), line("not_in_result", "a", "b")],
    reviews: [review("accepted"), review("needs_evidence")],
  });
  const other = hypothesis("H-2", { round: 2, evidence: [line("grounded", "a")] });
  const { nodes, edges } = mapOf([one, other]);
  assert.deepEqual(nodes.map(({ key }) => key), ["topic", "h:H-1", "e:a", "e:b", "o:H-1:1", "h:H-2"]);
  assert.deepEqual(edges.map(({ from, to, kind }) => `${from} ${to} ${kind}`), [
    "topic h:H-1 active",
    "h:H-1 e:a for",
    "h:H-1 e:b void",
    "h:H-1 o:H-1:1 against",
    "topic h:H-2 active",
    "h:H-2 e:a for",
  ]);
  assert.deepEqual(nodes.find(({ key }) => key === "h:H-1")?.rounds, [1, 3]);
});

Deno.test("everything on the map is inside it, also the most that there can be; later hypotheses are further out", () => {
  const many = Array.from({ length: 60 }, (_, index) =>
    hypothesis(`H-${index}`, {
      round: index % 10,
      evidence: [line("grounded", ...Array.from({ length: 20 }, (_, call) => `${index}.${call}`))],
    }));
  const { nodes } = mapOf(many);
  for (const { x, y } of nodes) assert.ok(Math.min(x, y) > 0 && Math.max(x, y) < SIZE);
  const far = (key: string) => {
    const { x = 0, y = 0 } = nodes.find((node) => node.key === key) ?? {};
    return Math.hypot(x - SIZE / 2, y - SIZE / 2);
  };
  assert.ok(far("h:H-9") > far("h:H-0"));
  assert.equal(mapOf([]).nodes.length, 1);
});
