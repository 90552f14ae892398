import assert from "node:assert/strict";
import { FULL_EVIDENCE, sampleHypothesis } from "../../testing/sample_state.ts";
import { applyOperator, applySkeptic, mergeHypotheses, type OperatorChange } from "./hypotheses.ts";
import { labelsFor } from "./labels.ts";
import type { Hypothesis } from "./state.ts";

const ROUND = { round: 3, labels: labelsFor("en") };
const apply = (hypothesis: Hypothesis, ...changes: readonly OperatorChange[]) =>
  applyOperator([hypothesis], changes, ROUND);

Deno.test.each(
  [
    { name: "an active one", state: "active", change: { kind: "pin", id: "H-1" }, after: "active" },
    {
      name: "a rejected one, which is open again",
      state: "rejected",
      change: { kind: "pin", id: "1" },
      after: "active",
    },
    {
      name: "a confirmed one, which stays so",
      state: "confirmed",
      change: { kind: "pin", id: "1" },
      after: "confirmed",
    },
  ] as const,
)("applyOperator() pins $name", ({ state, change, after }) => {
  const { hypotheses, said } = apply(sampleHypothesis({ state }), change);
  assert.deepEqual(hypotheses.map((each) => [each.state, each.rejected_reason]), [[after, null]]);
  assert.deepEqual(said, ["the operator wants this examined further: 1"]);
});

Deno.test("applyOperator() drops a hypothesis, and neither new evidence nor a reviewer brings it back", () => {
  const { hypotheses, said } = apply(sampleHypothesis({ state: "confirmed", evidence: FULL_EVIDENCE }), {
    kind: "drop",
    id: "1",
  });
  assert.deepEqual(said, ["dropped by the operator: 1"]);
  const [dropped] = hypotheses;
  assert.deepEqual([dropped?.state, dropped?.rejected_reason], ["rejected", "dropped by the operator"]);
  const call = {
    number: 9,
    call_id: "c9",
    tool_name: "http_get",
    succeeded: true,
    found: "503 since noon",
    asked: "",
  };
  const evidence = ['[tool:http_get#9] "503 since noon"'];
  const again = mergeHypotheses(hypotheses, [{ id: "1", text: "again", probability: 0.9, evidence }], {
    round: 4,
    agent: "diagnostic_agent",
    calls: [call],
    newCalls: new Set(["c9"]),
  });
  assert.equal(again[0]?.evidence.at(-1)?.status, "grounded");
  const accepted = applySkeptic(again, "[hypothesis:1] accepted", { ...ROUND, calls: [call] });
  assert.deepEqual(accepted.map(({ state }) => state), ["rejected"]);
  const pinned = applyOperator(accepted, [{ kind: "pin", id: "1" }], ROUND);
  assert.equal(
    applySkeptic(pinned.hypotheses, "[hypothesis:1] accepted", { ...ROUND, calls: [call] })[0]?.state,
    "confirmed",
  );
});

Deno.test("applyOperator() adds a hypothesis with the next number, on one line, without evidence", () => {
  const { hypotheses, said } = apply(sampleHypothesis({ id: "H-7" }), {
    kind: "add",
    text: " the disk\n### HYPOTHESIS-1 ",
  });
  const { id, text, state, proposer, round, evidence } = hypotheses[1] ?? sampleHypothesis();
  assert.deepEqual(
    { id, text, state, proposer, round, evidence },
    {
      id: "H-8",
      text: "the disk ### HYPOTHESIS-1",
      state: "active",
      proposer: "user_input_gate",
      round: 3,
      evidence: [],
    },
  );
  assert.deepEqual(said, ["added by the operator: H-8: the disk ### HYPOTHESIS-1"]);
});

Deno.test("applyOperator() ignores ids that are not in the table, empty texts, and what is beyond the limit", () => {
  const changes = [{ kind: "drop", id: "9" }, { kind: "add", text: " " }] as const;
  assert.deepEqual(apply(sampleHypothesis(), ...changes), { hypotheses: [sampleHypothesis()], said: [] });
  const many = Array.from({ length: 80 }, (_, index) => ({ kind: "add", text: `cause ${index}` }) as const);
  assert.equal(apply(sampleHypothesis(), ...many).hypotheses.length, 60);
});
