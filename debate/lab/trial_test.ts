import { FakeClock } from "@gateway/shared/testing";
import assert from "node:assert/strict";
import { collectTemplates, selectTemplate } from "../prompts/templates.ts";
import { priceTable } from "../models/prices.ts";
import { builtinIncidents, type Incident } from "./incidents.ts";
import { type AgentKind, scriptedAgent, STRENGTHS } from "../testing/scripted_agent.ts";
import { type Arm, ARMS, frozenTools, runTrial, type Trial } from "./trial.ts";

const PROTOCOL = {
  arms: ARMS,
  runs: 1,
  token_budget: 200_000,
  tool_budget: 8,
  max_rounds: 3,
  confidence_threshold: 0.8,
  early_out: { enabled: true, threshold: 0.9 },
  model_timeout_seconds: 600,
  template: "default",
  language: "en",
  prompts_sha256: "",
  models: { diagnostic: "", skeptic: "", moderator: "" },
};
const RULES = { template: selectTemplate(collectTemplates([]), "default", "en"), prices: priceTable() };

function hold(
  incident: Incident,
  arm: Arm,
  [diagnostic, skeptic, moderator]: readonly [AgentKind, AgentKind, AgentKind],
  protocol: Partial<typeof PROTOCOL> = {},
  run = 1,
): Promise<Trial> {
  const agent = (play: AgentKind) => scriptedAgent(play, incident, run);
  const models = { diagnostic: agent(diagnostic), skeptic: agent(skeptic), moderator: agent(moderator) };
  let ids = 0;
  return runTrial({ incident, arm, run, models }, { ...RULES, protocol: { ...PROTOCOL, ...protocol } }, {
    clock: new FakeClock(),
    newId: () => (++ids).toString(16).padStart(12, "0"),
    signal: AbortSignal.any([]),
  });
}

async function all(
  arm: Arm,
  strengths: readonly [AgentKind, AgentKind, AgentKind],
): Promise<readonly Trial[]> {
  return await Promise.all(builtinIncidents().map((incident) => hold(incident, arm, strengths)));
}

const LOOKING = ARMS.filter((arm) => arm !== "blind");

Deno.test.each(LOOKING.map((arm) => ({ name: arm, arm })))(
  "$name: three strong agents find every cause with confidence",
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
)("a right diagnosis with evidence is confirmed or kept: $name", async ({ skeptic, moderator }) => {
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
  "a wrong diagnosis with invented evidence is never reported as the cause: $name",
  async ({ skeptic, moderator }) => {
    for (const arm of ["single", "vote", "debate_three", "sample_then_debate"] as const) {
      for (const trial of await all(arm, ["weak", skeptic, moderator])) {
        assert.equal(trial.confident && !trial.score.right, false, `${arm} ${trial.incident}`);
        assert.ok(trial.confidence <= 0.6, `${arm} ${trial.incident}`);
      }
    }
  },
);

Deno.test.each([1, 2])("a false rejection changes no right diagnosis with evidence (run %i)", async (run) => {
  for (const incident of builtinIncidents()) {
    const trial = await hold(incident, "debate_three", ["strong", "deny", "strong"], {}, run);
    assert.deepEqual([trial.score.right, trial.confident], [true, true], incident.id);
    const denied = await hold(incident, "debate_three", ["strong", "strong", "deny"], {}, run);
    assert.equal(denied.score.right, true, incident.id);
  }
});

Deno.test("a strong skeptic refutes a wrong first guess, and the debate finds the cause", async () => {
  for (const trial of await all("debate_three", ["middling", "strong", "strong"])) {
    assert.equal(trial.score.right, true, `${trial.incident}: ${trial.answer}`);
  }
  const alone = await all("single", ["middling", "strong", "strong"]);
  assert.equal(alone.filter(({ score }) => score.right).length, 0);
});

Deno.test("a wrong guess with one real quote is not confirmed by careless reviewers", async () => {
  for (const trial of await all("debate_three", ["middling", "weak", "weak"])) {
    assert.deepEqual([trial.score.right, trial.confident], [false, false], trial.incident);
  }
});

/** A wrong diagnosis with real but irrelevant quotes, which no rule of the engine detects. */
Deno.test.each(
  [
    { name: "one agent alone", arm: "single", skeptic: "strong", called: 23 },
    { name: "a strong skeptic", arm: "debate_three", skeptic: "strong", called: 0 },
    { name: "a middling skeptic", arm: "debate_three", skeptic: "middling", called: 0 },
    { name: "a weak skeptic", arm: "debate_three", skeptic: "weak", called: 23 },
    { name: "a skeptic of the same kind", arm: "debate_three", skeptic: "beside", called: 23 },
  ] as const,
)(
  "irrelevant real quotes: with $name, $called of 24 diagnoses are reported as the cause",
  async ({ arm, skeptic, called }) => {
    const trials = await all(arm, ["beside", skeptic, "weak"]);
    assert.equal(trials.filter(({ score }) => score.right).length, 0);
    assert.equal(trials.filter(({ confident }) => confident).length, called);
  },
);

Deno.test("an agent without tool results confirms no cause", async () => {
  for (const trial of await all("blind", ["strong", "strong", "strong"])) {
    assert.deepEqual([trial.tool_calls, trial.confident], [0, false]);
  }
});

Deno.test("a trial ends with its last answer when its token budget is used up", async () => {
  const [incident = assert.fail()] = builtinIncidents();
  const strong = ["strong", "strong", "strong"] as const;
  const trial = await hold(incident, "debate_three", strong, { token_budget: 3000 });
  assert.deepEqual([trial.ending, trial.confident], ["out_of_budget", false]);
  assert.equal(trial.score.right, true);
  const whole = await hold(incident, "debate_three", strong);
  assert.equal(whole.ending, "completed");
  assert.ok(trial.tokens < whole.tokens);
});

Deno.test("a call is useful if the evidence quotes its result", async () => {
  const [incident = assert.fail()] = builtinIncidents();
  const trial = await hold(incident, "single", ["strong", "strong", "strong"]);
  assert.deepEqual([trial.tool_calls, trial.useful_tool_calls], [2, 2]);
});

Deno.test("a recorded tool answers only recorded calls and lists them", async () => {
  const [tool = assert.fail()] = frozenTools([
    {
      tool: "GetResources",
      args: { resource_type: "pods", name: "", wide: true },
      result: "frontend Running",
    },
  ]);
  const ask = (args: unknown) => tool.run(args, { signal: AbortSignal.any([]), runId: "" });
  for (
    const args of [{ wide: true, resource_type: "pods", name: "" }, { resource_type: "pods", wide: true }]
  ) {
    const { ok, text } = await ask(args);
    assert.deepEqual([ok, /frontend Running/.test(text)], [true, true]);
  }
  for (
    const args of [{ resource_type: "secrets" }, {}, null, "pods", { __proto__: { resource_type: "pods" } }]
  ) {
    const { ok, text } = await ask(args);
    assert.equal(ok, false);
    assert.match(text, /no result was recorded for these arguments, only for \{"resource_type":"pods"/);
  }
});
