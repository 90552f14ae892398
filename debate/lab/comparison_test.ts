import assert from "node:assert/strict";
import { formatClaim, type Quote } from "../testing/scripted_agent.ts";
import { builtinIncidents, type Incident } from "./incidents.ts";
import { compareArms, differenceOf, hashProtocol, shareOf, withPrompts } from "./comparison.ts";
import { formatComparison } from "./comparison_report.ts";
import { collectTemplates, selectTemplate } from "../prompts/templates.ts";
import { scoreAnswer } from "./score.ts";
import { brierOf, reliabilityOf } from "../benchmark/metrics.ts";
import { type Arm, frozenTools, type Trial } from "./trial.ts";
import { checkEvidence, toCalledTool } from "../engine/graph/evidence.ts";
import { FAULT_KINDS, normalName } from "../engine/graph/claim.ts";

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
    protocol_sha256: await hashProtocol(PROTOCOL, INCIDENTS),
    notes: ["a <b>note</b>"],
  });
}

Deno.test("the hash of a protocol covers all of its fields and the registered incidents", async () => {
  const hash = await hashProtocol(PROTOCOL, INCIDENTS);
  assert.equal(hash, "77678a73036e58e23a387adad4ec4a09f4c05a09132b0fa625ddb00263589186");
  assert.notEqual(await hashProtocol({ ...PROTOCOL, runs: 2 }, INCIDENTS), hash);
  const [first = assert.fail(), ...others] = INCIDENTS;
  assert.notEqual(await hashProtocol(PROTOCOL, [{ ...first, topic: `${first.topic}.` }, ...others]), hash);
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

Deno.test("compareArms() reports each arm and its difference to the first", async () => {
  const { arms } = await compare(TRIALS);
  const [single = assert.fail(), debate = assert.fail()] = arms;
  assert.deepEqual(single.right, { value: 0.5, low: 0.314274, high: 0.685726, incidents: 24 });
  assert.equal(debate.right.value, 1);
  assert.equal(single.confidently_wrong.value, 0.5);
  assert.equal(single.tool_efficiency, 0.5);
  assert.equal(single.against_first, undefined);
  assert.equal(debate.against_first?.value, 0.5);
  assert.ok((debate.against_first?.low ?? 0) > 0.2);
  assert.equal(debate.false_alarms?.value, 0);
});

Deno.test("the text reports that a difference is not significant", async () => {
  const same = INCIDENTS.flatMap((_, index) => [
    trial(index, "single", index % 2 === 0),
    trial(index, "debate_one", index % 2 === 1),
  ]);
  const lines = formatComparison(await compare(same)).join("\n");
  assert.match(lines, /debate_one against single: right 0 points \(-\d+ to \+?\d+\), no difference shown/);
  assert.ok(lines.split("\n").every((line) => line.length <= 100));
});

Deno.test("the text reports an arm with more confident wrong answers", async () => {
  const careless = INCIDENTS.flatMap((_, index) => [
    trial(index, "single", false, { confident: false }),
    trial(index, "debate_one", false),
  ]);
  const text = formatComparison(await compare(careless)).join("\n");
  assert.match(text, /right 0 points \(0 to 0\), no difference shown/);
  assert.match(text, /debate_one against single: confident and wrong \+100 points \(\+100 to \+100\), worse/);
  const cured = careless.map((each) => ({ ...each, confident: !each.confident }));
  assert.match(
    formatComparison(await compare(cured)).join("\n"),
    /confident and wrong -100 points .*, better/,
  );
});

Deno.test("more runs of one incident do not narrow an interval", async () => {
  const again = [1, 2, 3].flatMap((run) => TRIALS.map((each) => ({ ...each, run })));
  assert.deepEqual((await compare(again)).arms[0]?.right, (await compare(TRIALS)).arms[0]?.right);
});

Deno.test("statistics of empty data and of answers with confidence 0 or 1", () => {
  assert.equal(shareOf([]), undefined);
  assert.equal(differenceOf([]), undefined);
  assert.equal(brierOf([]), null);
  assert.equal(shareOf([1, 1, 1, 1])?.low, 0.510109);
  assert.equal(brierOf([{ confidence: 1, right: false }, { confidence: 0, right: false }]), 0.5);
  const bins = reliabilityOf([{ confidence: 1, right: true }, { confidence: 0.85, right: false }]);
  assert.deepEqual(bins.at(-1), { from: 0.8, to: 1, cases: 2, mean_confidence: 0.925, accuracy: 0.5 });
});

Deno.test("there are 24 incidents: six kinds of faults, four tempting wrong causes, four with no fault", () => {
  assert.equal(INCIDENTS.length, 24);
  assert.equal(new Set(INCIDENTS.map(({ id }) => id)).size, 24);
  for (const kind of FAULT_KINDS) {
    const count = INCIDENTS.filter(({ truth }) => truth.fault === kind).length;
    assert.ok(kind === "none" ? count === 4 : count >= 3, `${kind}: ${count}`);
  }
  assert.equal(INCIDENTS.filter(({ rivals }) => rivals.some(({ tempting }) => tempting)).length, 4);
});

Deno.test.each(INCIDENTS.map((incident) => ({ name: incident.id, incident })))(
  "$name: every name has one meaning, and causes consist of listed names",
  ({ incident: { components, states, truth, rivals } }) => {
    for (const each of [components, states]) {
      const all = Object.entries(each).flatMap((
        [name, others],
      ) => [...new Set([name, ...others].map(normalName))]);
      assert.equal(new Set(all).size, all.length);
    }
    for (const { component, fault, path } of [truth, ...rivals]) {
      assert.equal(fault === "none", component === "none");
      assert.ok(fault === "none" || Object.hasOwn(components, component), component);
      assert.deepEqual(path.filter((state) => !Object.hasOwn(states, state)), []);
    }
  },
);

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

const POOL = INCIDENTS.find(({ id }) => id === "connection_pool_leak") ?? assert.fail();
const HOLIDAY = INCIDENTS.find(({ id }) => id === "public_holiday") ?? assert.fail();
const PATH = "paygate-declines-rise > connections-not-returned > pool-exhausted > requests-time-out";

Deno.test.each([
  { name: "the truth", answer: `{component: orders-api/pool; fault: resource_leak; path: ${PATH}}` },
  {
    name: "a path without a state in between",
    answer:
      "{component: orders-api/pool; fault: leak; path: paygate-declines-rise > pool-exhausted > requests-time-out}",
  },
  {
    name: "other names of the same things",
    answer:
      "{component: the connection pool of orders-api; fault: connection leak; path: more declined payments > connections are not closed after an error > pool is exhausted > requests answered 503} Connections stay out.",
  },
  {
    name: "the truth in Spanish",
    answer:
      "{componente: pool de conexiones de orders-api; fallo: fuga de recursos; camino: suben los pagos rechazados > conexiones sin devolver > pool agotado > peticiones con 503} No se devuelven.",
  },
])("scoreAnswer() accepts $name", ({ answer }) => {
  assert.deepEqual(scoreAnswer(answer, POOL), {
    component: true,
    fault: true,
    path: true,
    right: true,
    problem: null,
  });
});

const ALL = Object.keys(POOL.components);
const STATES = Object.keys(POOL.states);
const RIGHT = `{component: orders-api/pool; fault: resource_leak; path: ${PATH}}`;

Deno.test.each([
  {
    name: "the right words as prose",
    answer: "orders-api/pool resource_leak connections-not-returned pool-exhausted",
  },
  { name: "a denial before the truth", answer: `The cause is not ${RIGHT}` },
  { name: "a denial after the truth", answer: `${RIGHT} is not the cause` },
  { name: "a denial in Spanish", answer: `${RIGHT} no es la causa` },
  { name: "a denied component", answer: `{component: not orders-api/pool; fault: leak; path: ${PATH}}` },
  {
    name: "cause and effect swapped",
    answer:
      "{component: orders-api/pool; fault: leak; path: requests-time-out > pool-exhausted > connections-not-returned > paygate-declines-rise}",
  },
  {
    name: "two states swapped",
    answer:
      "{component: orders-api/pool; fault: leak; path: paygate-declines-rise > pool-exhausted > connections-not-returned > requests-time-out}",
  },
  { name: "every component", answer: `{component: ${ALL.join(", ")}; fault: leak; path: ${PATH}}` },
  {
    name: "every fault",
    answer: `{component: orders-api/pool; fault: ${FAULT_KINDS.join(" ")}; path: ${PATH}}`,
  },
  { name: "every state", answer: `{component: orders-api/pool; fault: leak; path: ${STATES.join(" > ")}}` },
  {
    name: "a claim for each component",
    answer: ALL.map((each) => RIGHT.replace("orders-api/pool", each)).join(" "),
  },
  { name: "the truth and a wrong claim", answer: `${RIGHT} {component: paygate; fault: dependency}` },
  { name: "no path", answer: "{component: orders-api/pool; fault: leak}" },
  { name: "the last state", answer: "{component: orders-api/pool; fault: leak; path: requests-time-out}" },
  {
    name: "only the first state of the path",
    answer: "{component: orders-api/pool; fault: leak; path: paygate-declines-rise}",
  },
  { name: "the symptom's component", answer: RIGHT.replace("orders-api/pool", "load-balancer") },
  { name: "part of a name", answer: RIGHT.replace("orders-api/pool", "pool") },
  { name: "another kind of fault", answer: RIGHT.replace("resource_leak", "capacity") },
  { name: "that no component is faulty", answer: "{component: none; fault: none}" },
  { name: "a placeholder", answer: "{component: <name>; fault: <kind>; path: <state> > <state>}" },
  { name: "nothing", answer: "" },
])("scoreAnswer() rejects $name", ({ answer }) => {
  assert.equal(scoreAnswer(answer, POOL).right, false);
});

Deno.test.each([
  {
    name: "accepts that nothing is broken",
    answer: "{component: none; fault: none} A holiday.",
    right: true,
  },
  { name: "accepts it in Spanish", answer: "{componente: ninguno; fallo: ninguno} Festivo.", right: true },
  { name: "rejects an additional component", answer: "{component: login; fault: none}", right: false },
  {
    name: "rejects an additional path",
    answer: "{component: none; fault: none; path: login-broken}",
    right: false,
  },
  {
    name: "refuses a fault",
    answer: "{component: login; fault: dependency; path: login-broken > orders-fall}",
    right: false,
  },
  { name: "rejects prose", answer: "Nothing is broken", right: false },
])("scoreAnswer() of an incident without a fault $name", ({ answer, right }) => {
  assert.equal(scoreAnswer(answer, HOLIDAY).right, right);
});

/** Answers of a guesser who knows the names but has no evidence. */
Deno.test("a constant answer is right for at most four incidents", () => {
  const blind = [
    () => "{component: none; fault: none}",
    ...FAULT_KINDS.map((fault) => ({ components, states }: (typeof INCIDENTS)[number]) =>
      formatClaim({ component: Object.keys(components)[0] ?? "", fault, path: Object.keys(states) })
    ),
    ({ components, states }: (typeof INCIDENTS)[number]) =>
      formatClaim({
        component: Object.keys(components).sort()[0] ?? "",
        fault: "configuration" as const,
        path: Object.keys(states).sort(),
      }),
  ];
  for (const say of blind) {
    const right = INCIDENTS.filter((incident) => scoreAnswer(say(incident), incident).right).length;
    assert.ok(right <= 4, `${right}`);
  }
});
