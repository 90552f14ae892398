import assert from "node:assert/strict";
import { checkEvidence, toCalledTool } from "../engine/graph/evidence.ts";
import { FAULT_KINDS } from "../engine/graph/claim.ts";
import { builtinIncidents, formatClaim, type Incident, type Quote } from "./incidents.ts";
import { frozenTools } from "./trial.ts";
import { scoreAnswer } from "./score.ts";

const INCIDENTS = builtinIncidents();

Deno.test("there are 24 incidents: six kinds of faults, four tempting wrong causes, four with no fault", () => {
  assert.equal(INCIDENTS.length, 24);
  assert.equal(new Set(INCIDENTS.map(({ id }) => id)).size, 24);
  for (const kind of FAULT_KINDS) {
    const count = INCIDENTS.filter(({ truth }) => truth.fault === kind).length;
    assert.ok(kind === "none" ? count === 4 : count >= 3, `${kind}: ${count}`);
  }
  assert.equal(INCIDENTS.filter(({ rivals }) => rivals.some(({ tempting }) => tempting)).length, 4);
});

async function counts({ tools }: Incident, { result, quote }: Quote): Promise<string> {
  const answer = tools[result - 1];
  assert.ok(answer);
  const tool = frozenTools(tools).find(({ name }) => name === answer.tool);
  const { text, ok } = await tool?.run(answer.args, { signal: AbortSignal.any([]), runId: "" }) ??
    assert.fail();
  const call = { number: 1, call_id: "c", tool_name: answer.tool, succeeded: ok };
  const called = toCalledTool(call, answer.args, text);
  return checkEvidence(`[tool:${answer.tool}#1] \`${quote}\``, 1, [called]).status;
}

Deno.test.each(INCIDENTS.map((incident) => ({ name: incident.id, incident })))(
  "$name: what proves the cause and what speaks for and against rivals counts as evidence",
  async ({ incident }) => {
    const { proof, rivals, truth, states } = incident;
    for (const quote of [...proof, ...rivals.flatMap((rival) => [rival.for, rival.against])]) {
      assert.equal(await counts(incident, quote), "grounded", quote.quote);
    }
    assert.equal(new Set(proof.map(({ result }) => result)).size, 2, "proof from two results");
    assert.ok(rivals.length >= 2 && Object.keys(incident.components).length >= 4);
    assert.ok(truth.fault === "none" || truth.path.length >= 3);
    const unused = Object.keys(states).filter((state) => !truth.path.includes(state));
    assert.ok(unused.length >= 2, "states that did not occur");
  },
);

Deno.test.each(INCIDENTS.map((incident) => ({ name: incident.id, incident })))(
  "$name: the truth is right, and no rival is",
  ({ incident }) => {
    assert.equal(scoreAnswer(formatClaim(incident.truth), incident).right, true);
    for (const rival of incident.rivals) {
      assert.equal(scoreAnswer(formatClaim(rival), incident).right, false);
    }
  },
);
