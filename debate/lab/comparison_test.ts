import assert from "node:assert/strict";
import { builtinIncidents, formatClaim } from "./incidents.ts";
import {
  compareArms,
  differenceOf,
  hashIncidents,
  hashProtocol,
  REGISTERED,
  shareOf,
  withPrompts,
} from "./comparison.ts";
import { formatComparison, renderComparison } from "./comparison_report.ts";
import { collectTemplates, selectTemplate } from "../prompts/templates.ts";
import { scoreAnswer } from "./score.ts";
import { brierOf, reliabilityOf } from "../benchmark/metrics.ts";
import type { Arm, Trial } from "./trial.ts";

const INCIDENTS = builtinIncidents();
const PROTOCOL = {
  arms: ["single", "debate_one"] as const,
  runs: 1,
  token_budget: 1000,
  tool_budget: 8,
  max_rounds: 4,
  confidence_threshold: 0.8,
  early_out: { enabled: true, threshold: 0.9 },
  model_timeout_seconds: 600,
  template: "default",
  language: "en",
  prompts_sha256: "0",
  models: { diagnostic: "hub/a", skeptic: "hub/b", moderator: "hub/<img src=x onerror=alert(1)>" },
};

function trial(index: number, arm: Arm, isRight: boolean, changes: Partial<Trial> = {}): Trial {
  const incident = INCIDENTS[index] ?? assert.fail();
  const answer = isRight ? formatClaim(incident.truth) : formatClaim(incident.rivals[0] ?? assert.fail());
  return {
    incident: incident.id,
    kind: incident.truth.fault,
    arm,
    run: 1,
    answer,
    score: scoreAnswer(answer, incident),
    confidence: 0.9,
    confident: true,
    tokens: 100,
    cost_usd: null,
    tool_calls: 4,
    useful_tool_calls: 2,
    rounds: 1,
    seconds: 1,
    ending: "completed",
    problem: null,
    ...changes,
  };
}

const TRIALS = INCIDENTS.flatMap((_, index) => [
  trial(index, "single", index % 2 === 0),
  trial(index, "debate_one", true, { tokens: 300 }),
]);

async function compare(trials: readonly Trial[]) {
  return compareArms(trials, INCIDENTS, {
    generated_at: "2026-01-01T00:00:00.000Z",
    protocol: PROTOCOL,
    incidents_sha256: await hashIncidents(INCIDENTS),
    protocol_sha256: await hashProtocol(PROTOCOL, INCIDENTS),
    notes: ["a <b>note</b>"],
  });
}

Deno.test("the built-in incidents are those that were registered", async () => {
  assert.equal(await hashIncidents(INCIDENTS), REGISTERED);
  assert.equal(await hashIncidents(INCIDENTS.toReversed()), REGISTERED);
  const [first = assert.fail(), ...others] = INCIDENTS;
  assert.notEqual(await hashIncidents([{ ...first, topic: `${first.topic}.` }, ...others]), REGISTERED);
});

Deno.test("the hash of a protocol changes with whatever is agreed", async () => {
  const hash = await hashProtocol(PROTOCOL, INCIDENTS);
  assert.notEqual(await hashProtocol({ ...PROTOCOL, runs: 2 }, INCIDENTS), hash);
  assert.notEqual(await hashProtocol(PROTOCOL, INCIDENTS.slice(1)), hash);
});

Deno.test.each([
  { name: "the system text of the moderator", template: { moderatorSystem: "decide" } },
  { name: "the system text of the diagnosis", template: { diagnosticSystem: "guess" } },
  { name: "the early end", protocol: { early_out: { enabled: true, threshold: 0.5 } } },
  { name: "the language", protocol: { language: "es" } },
])("the hash of the prompts changes with $name", async ({ template = {}, protocol = {} }) => {
  const usual = selectTemplate(collectTemplates([]), "default", "en");
  const { prompts_sha256: before } = await withPrompts(PROTOCOL, usual);
  assert.match(before, /^[0-9a-f]{64}$/);
  assert.equal((await withPrompts(PROTOCOL, { ...usual })).prompts_sha256, before);
  const after = await withPrompts({ ...PROTOCOL, ...protocol }, { ...usual, ...template });
  assert.notEqual(after.prompts_sha256, before);
});

Deno.test("two incidents with the same truth are answered by the same answer", async () => {
  const [first = assert.fail()] = INCIDENTS;
  const twin = { ...first, id: "twin" };
  const facts = { ...await compare(TRIALS) };
  const [answered = assert.fail()] = TRIALS;
  const { right_for_another_incident } = compareArms([answered], [first, twin], facts);
  assert.equal(right_for_another_incident, 0);
  const lax = { ...twin, anyFault: true as const, truth: { ...first.truth, fault: "data" as const } };
  assert.equal(compareArms([answered], [first, lax], facts).right_for_another_incident, 1);
});

Deno.test("compareArms() tells what each arm did, and what the difference allows to say", async () => {
  const { arms, right_for_another_incident } = await compare(TRIALS);
  const [single = assert.fail(), debate = assert.fail()] = arms;
  assert.deepEqual(single.right, { value: 0.5, low: 0.314274, high: 0.685726, incidents: 24 });
  assert.equal(debate.right.value, 1);
  assert.equal(single.confidently_wrong.value, 0.5);
  assert.equal(single.tool_efficiency, 0.5);
  assert.equal(single.against_first, undefined);
  assert.equal(debate.against_first?.value, 0.5);
  assert.ok((debate.against_first?.low ?? 0) > 0.2);
  assert.equal(debate.false_alarms?.value, 0);
  assert.equal(debate.tempting?.incidents, 4);
  assert.deepEqual(Object.keys(debate.by_kind).length, 7);
  assert.equal(right_for_another_incident, 0);
});

Deno.test("the text says no when the difference shows nothing", async () => {
  const same = INCIDENTS.flatMap((_, index) => [
    trial(index, "single", index % 2 === 0),
    trial(index, "debate_one", index % 2 === 1),
  ]);
  const lines = formatComparison(await compare(same)).join("\n");
  assert.match(lines, /debate_one against single: right 0 points \(-\d+ to \+?\d+\), no difference shown/);
  assert.ok(lines.split("\n").every((line) => line.length <= 100));
});

Deno.test("the text tells of an arm that is surer and wrong", async () => {
  const careless = INCIDENTS.flatMap((_, index) => [
    trial(index, "single", false, { confident: false }),
    trial(index, "debate_one", false),
  ]);
  const text = formatComparison(await compare(careless)).join("\n");
  assert.match(text, /right 0 points \(0 to 0\), no difference shown/);
  assert.match(text, /debate_one against single: sure and wrong \+100 points \(\+100 to \+100\), worse/);
  const cured = careless.map((each) => ({ ...each, confident: !each.confident }));
  assert.match(formatComparison(await compare(cured)).join("\n"), /sure and wrong -100 points .*, better/);
});

Deno.test("more runs of the same incidents make no interval narrower", async () => {
  const again = [1, 2, 3].flatMap((run) => TRIALS.map((each) => ({ ...each, run })));
  assert.deepEqual((await compare(again)).arms[0]?.right, (await compare(TRIALS)).arms[0]?.right);
});

Deno.test("the HTML file has plots, loads nothing, and shows what comes from outside as text", async () => {
  const hostile = trial(0, "single", false, { answer: '"><script>alert(1)</script>' });
  const html = renderComparison(await compare([hostile, ...TRIALS.slice(1)]));
  assert.equal(html.match(/<svg /g)?.length, 2);
  assert.doesNotMatch(html, /<script|<img|<b>note|<[^>]*(?:src|href)=/);
  assert.match(html, /default-src 'none'/);
  assert.match(html, /Calibration of one agent, Brier 0\.\d{3}/);
});

Deno.test("statistics of nothing and of certainty", () => {
  assert.equal(shareOf([]), undefined);
  assert.equal(differenceOf([]), undefined);
  assert.equal(brierOf([]), null);
  assert.equal(shareOf([1, 1, 1, 1])?.low, 0.510109);
  assert.equal(brierOf([{ confidence: 1, right: false }, { confidence: 0, right: false }]), 0.5);
  const bins = reliabilityOf([{ confidence: 1, right: true }, { confidence: 0.85, right: false }]);
  assert.deepEqual(bins.at(-1), { from: 0.8, to: 1, cases: 2, mean_confidence: 0.925, accuracy: 0.5 });
});
