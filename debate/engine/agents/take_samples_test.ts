import assert from "node:assert/strict";
import { DebateFixture, FixedTool } from "../../testing/debate_fixture.ts";
import { call, ScriptedModel } from "../../testing/scripted_model.ts";
import type { DebateSetup } from "../ports.ts";
import { FakeClock } from "@gateway/shared/testing";
import { toolCache } from "./debate.ts";

const TOOLS = [
  new FixedTool("http_get", {
    ok: true,
    text: "GET /pool: 200 OK\n20 of 20 connections in use, 431 waiting",
  }),
  new FixedTool("query_loki", { ok: true, text: "1 line\nconnection never returned by worker 7" }),
];
const IN_PART = '- [tool:http_get] "20 of 20 connections in use"';
const PROOF = `${IN_PART}\n- [tool:query_loki] "connection never returned"`;

function diagnosis(component: string, share: number, line = ""): string {
  return `### HYPOTHESIS-H-1 [P=${share}]\nText: {component: ${component}; fault: resource_leak} It leaks.\n${line}`;
}

/** A run that starts with one diagnosis per text. Each diagnosis calls one tool. */
function sampled(texts: readonly string[], setup: Partial<DebateSetup> = {}) {
  const ask = { toolCalls: [call("http_get", { url: "http://pool" }), call("query_loki", {}, "c2")] };
  return new DebateFixture(
    { sample_agent: texts.flatMap((text) => [ask, text]) },
    { sampling: { count: texts.length, then: "debate" }, ...setup },
    { tools: TOOLS },
  );
}

const AGREEING = [diagnosis("pool", 0.9, PROOF), diagnosis("The Pool", 0.7, PROOF), diagnosis("pool", 0.8)];

Deno.test("fully grounded diagnoses that agree skip the debate, and the moderator decides", async () => {
  const fixture = sampled(AGREEING);
  const { hypotheses, status } = await fixture.run();
  assert.equal(status, "completed");
  assert.deepEqual(hypotheses.map(({ id, probability }) => [id, probability]), [["H-1", 0.8]]);
  assert.deepEqual(fixture.of("agent_completed").map(({ sample }) => sample), [1, 2, 3]);
  assert.deepEqual(
    fixture.of("agent_skipped").map(({ node }) => node),
    ["skeptic_agent", "diagnostic_rebuttal_agent"],
  );
  assert.equal(fixture.of("samples_compared")[0]?.agreed, true);
  assert.equal(fixture.of("moderator_decision").length, 1);
});

Deno.test("independent diagnoses do not see each other", async () => {
  const fixture = sampled([diagnosis("first-guess", 0.5), diagnosis("pool", 0.5), diagnosis("pool", 0.5)]);
  await fixture.run();
  const asked = fixture.model.requests.filter(({ purpose }) => purpose === "sample_agent");
  assert.equal(asked.length, 6);
  for (const { messages } of asked) {
    const seen = messages.map(({ content }) => content).join("\n");
    assert.equal(seen.includes("first-guess"), false);
  }
});

Deno.test("diagnoses that differ are debated with the hypothesis IDs of the run", async () => {
  const fixture = sampled([diagnosis("pool", 0.9, PROOF), diagnosis("cache", 0.8), diagnosis("pool", 0.6)]);
  await fixture.run();
  const [compared] = fixture.of("samples_compared");
  assert.deepEqual(compared?.votes, [{ id: "H-1", votes: 2 }, { id: "H-2", votes: 1 }]);
  assert.equal(compared?.agreed, false);
  const skeptic = fixture.model.requests.find(({ purpose }) => purpose === "skeptic_agent");
  assert.match(
    skeptic?.messages.at(-1)?.content ?? "",
    /HYPOTHESIS-H-2 \[P=0\.267\]\nText: \{component: cache/,
  );
});

Deno.test.each([
  { name: "the same guess", line: "" },
  { name: "the same claim with evidence from a single result", line: IN_PART },
  {
    name: "the same claim with a line that does not count",
    line: `${PROOF}\n- [tool:http_get] "nobody said it"`,
  },
])("a diagnosis made three times is debated: $name", async ({ line }) => {
  const fixture = sampled([
    diagnosis("pool", 0.9, line),
    diagnosis("pool", 0.9, line),
    diagnosis("pool", 0.9),
  ]);
  await fixture.run();
  const [compared] = fixture.of("samples_compared");
  assert.equal(compared?.agreed, false);
  assert.match(compared?.reason ?? "", /not enough of its evidence counts/);
  assert.equal(fixture.of("agent_skipped").length, 0);
});

Deno.test.each([
  { name: "the same words without a claim", texts: ["The pool leaks", "The pool leaks"] },
  { name: "an empty diagnosis", texts: [diagnosis("pool", 0.9, PROOF), ""] },
])("independent diagnoses do not agree: $name", async ({ texts }) => {
  const fixture = sampled(texts);
  await fixture.run();
  assert.equal(fixture.of("samples_compared")[0]?.agreed, false);
});

Deno.test("identical texts without a claim are one hypothesis but no agreement", async () => {
  const said = diagnosis("", 0.6).replace(/\{[^}]*\}/, "The pool is exhausted");
  const fixture = sampled([said, said.replace("The pool", "the  Pool"), said]);
  await fixture.run();
  const [compared] = fixture.of("samples_compared");
  assert.deepEqual([compared?.votes, compared?.agreed], [[{ id: "H-1", votes: 3 }], false]);
});

Deno.test("an agreement skips one round: if the moderator continues, all agents take part", async () => {
  const fixture = sampled(AGREEING);
  const going = new DebateFixture(
    { sample_agent: fixture.model.script.sample_agent ?? [], moderator_agent: ['{"status":"continue"}'] },
    { sampling: { count: 3, then: "debate" }, maxRounds: 2 },
    { tools: TOOLS },
  );
  await going.run();
  const spoke = going.of("agent_completed").filter(({ sample }) => sample === undefined);
  assert.deepEqual(spoke.map(({ node }) => node), [
    "diagnostic_agent",
    "skeptic_agent",
    "diagnostic_rebuttal_agent",
  ]);
});

Deno.test("independent diagnoses use SAMPLE_MODEL, with separate token counts", async () => {
  const usage = { input_tokens: 5, output_tokens: 1, total_tokens: 6 };
  const cheap = new ScriptedModel({ sample_agent: [{ text: diagnosis("pool", 0.5), usage }] }, "hub/cheap");
  const fixture = sampled(["", ""]);
  const models = { ...fixture.setup.models, sample: cheap };
  const { usage: totals } = await sampled(["", ""], { models }).run();
  assert.deepEqual(totals.by_node.sample_agent, {
    input_tokens: 10,
    output_tokens: 2,
    total_tokens: 12,
  });
});

Deno.test("a resumed run has no independent diagnoses", async () => {
  const fixture = sampled(AGREEING, { initial: { history: [], hypotheses: [] } });
  await fixture.run();
  assert.deepEqual(fixture.of("samples_compared"), []);
});

Deno.test.each([
  { name: "the most votes win", texts: AGREEING, lead: /^H-1: \{component: pool/, confidence: 0.8 },
  {
    name: "a tie has no winner",
    texts: [diagnosis("pool", 0.9), diagnosis("cache", 0.9)],
    lead: /^$/,
    confidence: 0,
  },
  { name: "a guess is limited", texts: [diagnosis("pool", 0.9)], lead: /^H-1/, confidence: 0.6 },
])("a vote in place of a debate: $name", async ({ texts, lead, confidence }) => {
  const fixture = sampled(texts, { sampling: { count: texts.length, then: "vote" } });
  const { decision, status } = await fixture.run();
  assert.equal(status, "completed");
  assert.match(decision?.leading_hypothesis ?? "", lead);
  assert.equal(decision?.confidence, confidence);
  assert.equal(fixture.model.requests.every(({ purpose }) => purpose === "sample_agent"), true);
});

Deno.test("a run warns if all roles use one model, except for a scripted model", async () => {
  const [model, other] = [new ScriptedModel({}, "hub/one"), new ScriptedModel({}, "hub/other")];
  const roles = (skeptic: ScriptedModel) => ({
    diagnostic: model,
    skeptic,
    moderator: model,
    summary: model,
  });
  const one = new DebateFixture({}, { models: roles(model) });
  await one.run();
  assert.match(one.of("run_warning")[0]?.message ?? "", /^All roles use the model hub\/one/);
  const two = new DebateFixture({}, { models: roles(other) });
  await two.run();
  const script = new DebateFixture();
  await script.run();
  assert.deepEqual([...two.of("run_warning"), ...script.of("run_warning")], []);
});

const RESULT = { text: "200 OK", role: "Primary Diagnosis", round: 1 } as const;

Deno.test("toolCache() finds the same call in the same round for any order of keys", () => {
  const cache = toolCache(new FakeClock());
  cache.store("http_get", { a: 1, b: [{ c: 2, d: 3 }] }, RESULT);
  assert.equal(cache.find("http_get", { b: [{ d: 3, c: 2 }], a: 1 }, 1)?.text, "200 OK");
});

Deno.test.each([
  { name: "another tool", tool: "query_loki", args: { a: 1 }, round: 1 },
  { name: "other arguments", tool: "http_get", args: { a: "1" }, round: 1 },
])("toolCache() does not return the result for $name", ({ tool, args, round }) => {
  const cache = toolCache(new FakeClock());
  cache.store("http_get", { a: 1 }, RESULT);
  assert.equal(cache.find(tool, { ...args }, round), undefined);
});

Deno.test("toolCache() distinguishes an object from a list of its entries", () => {
  const cache = toolCache(new FakeClock());
  cache.store("http_get", { x: { a: 1 } }, RESULT);
  assert.equal(cache.find("http_get", { x: [["a", 1]] }, 1), undefined);
});

Deno.test("toolCache() expires results after 300 s", async () => {
  const clock = new FakeClock();
  const cache = toolCache(clock);
  cache.store("http_get", {}, RESULT);
  await clock.advance(300_000);
  assert.ok(cache.find("http_get", {}, 1));
  await clock.advance(1);
  assert.equal(cache.find("http_get", {}, 1), undefined);
});
