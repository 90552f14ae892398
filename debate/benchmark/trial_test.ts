import { FakeClock } from "@gateway/shared/testing/fake_clock";
import assert from "node:assert/strict";
import { collectTemplates, selectTemplate } from "../prompts/templates.ts";
import { type Arm, ARMS } from "./arms.ts";
import { builtinIncidents } from "./builtin_incidents.ts";
import type { Incident } from "./incident.ts";
import { ScriptedAgent, type Strength, STRENGTHS } from "./scripted_agent.ts";
import { holdTrial, type Trial, type TrialRules } from "./trial.ts";

const RULES: TrialRules = {
  template: selectTemplate(collectTemplates([]), "default", "en"),
  language: "en",
  maxRounds: 3,
  confidenceThreshold: 0.8,
  earlyOut: { enabled: true, threshold: 0.9 },
  toolBudget: 8,
  tokenBudget: 200_000,
  costOf: () => null,
  timeouts: {},
};

function hold(
  incident: Incident,
  arm: Arm,
  [diagnostic, skeptic, moderator]: readonly [Strength, Strength, Strength],
  rules: Partial<TrialRules> = {},
  run = 1,
): Promise<Trial> {
  const agent = (strength: Strength) => new ScriptedAgent(strength, incident, run);
  const models = { diagnostic: agent(diagnostic), skeptic: agent(skeptic), moderator: agent(moderator) };
  let ids = 0;
  return holdTrial({ incident, arm, run, models }, { ...RULES, ...rules }, {
    clock: new FakeClock(),
    newId: () => (++ids).toString(16).padStart(12, "0"),
    signal: AbortSignal.any([]),
  });
}

async function all(arm: Arm, strengths: readonly [Strength, Strength, Strength]): Promise<readonly Trial[]> {
  return await Promise.all(builtinIncidents().map((incident) => hold(incident, arm, strengths)));
}

const LOOKING = ARMS.filter((arm) => arm !== "blind");

Deno.test.each(LOOKING.map((arm) => ({ name: arm, arm })))(
  "$name: three strong agents find every cause and call it one",
  async ({ arm }) => {
    const trials = await all(arm, ["strong", "strong", "strong"]);
    const lost = trials.filter(({ score, confident }) => !score.right || !confident);
    assert.deepEqual(lost.map(({ incident, answer, confidence }) => [incident, answer, confidence]), []);
  },
);

Deno.test.each(
  STRENGTHS.flatMap((skeptic) =>
    STRENGTHS.map((moderator) => ({ name: `${skeptic} skeptic, ${moderator} moderator`, skeptic, moderator }))
  ),
)("a right diagnosis with evidence is not lost: $name", async ({ skeptic, moderator }) => {
  for (const trial of await all("debate_three", ["strong", skeptic, moderator])) {
    assert.equal(trial.score.right, true, `${trial.incident}: ${trial.answer}`);
    if (moderator === "strong") assert.equal(trial.confident, true, trial.incident);
  }
});

Deno.test.each(
  STRENGTHS.flatMap((skeptic) =>
    STRENGTHS.map((moderator) => ({ name: `${skeptic} skeptic, ${moderator} moderator`, skeptic, moderator }))
  ),
)(
  "a wrong diagnosis with made-up evidence is never called the cause: $name",
  async ({ skeptic, moderator }) => {
    for (const arm of ["single", "vote", "debate_three", "sample_then_debate"] as const) {
      for (const trial of await all(arm, ["weak", skeptic, moderator])) {
        assert.equal(trial.confident && !trial.score.right, false, `${arm} ${trial.incident}`);
        assert.ok(trial.confidence <= 0.6, `${arm} ${trial.incident}`);
      }
    }
  },
);

Deno.test("a wrong first guess with real evidence is refuted by a strong skeptic, and the cause is found", async () => {
  for (const trial of await all("debate_three", ["middling", "strong", "strong"])) {
    assert.equal(trial.score.right, true, `${trial.incident}: ${trial.answer}`);
  }
  const alone = await all("single", ["middling", "strong", "strong"]);
  assert.equal(alone.filter(({ score }) => score.right).length, 0);
});

Deno.test("a wrong first guess with one real quote is not called the cause, though careless reviewers agree", async () => {
  for (const trial of await all("debate_three", ["middling", "weak", "weak"])) {
    assert.deepEqual([trial.score.right, trial.confident], [false, false], trial.incident);
  }
});

Deno.test("whoever sees no result of a tool calls nothing the cause", async () => {
  for (const trial of await all("blind", ["strong", "strong", "strong"])) {
    assert.deepEqual([trial.tool_calls, trial.confident], [0, false]);
  }
});

Deno.test("a trial ends when its tokens are used up, with the answer that it had by then", async () => {
  const [incident = assert.fail()] = builtinIncidents();
  const strong = ["strong", "strong", "strong"] as const;
  const trial = await hold(incident, "debate_three", strong, { tokenBudget: 3000 });
  assert.deepEqual([trial.ending, trial.confident], ["out_of_budget", false]);
  assert.equal(trial.score.right, true);
  const whole = await hold(incident, "debate_three", strong);
  assert.equal(whole.ending, "completed");
  assert.ok(trial.tokens < whole.tokens);
});

Deno.test("every result that the evidence quotes is a useful call", async () => {
  const [incident = assert.fail()] = builtinIncidents();
  const trial = await hold(incident, "single", ["strong", "strong", "strong"]);
  assert.deepEqual([trial.tool_calls, trial.useful_tool_calls], [2, 2]);
});
