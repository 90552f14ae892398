import assert from "node:assert/strict";
import { CLOSING, CONTINUE, DebateFixture, DIAGNOSIS, FixedTool } from "../../testing/debate_fixture.ts";
import { sampleDecision } from "../../testing/sample_state.ts";
import { type Answer, call } from "../../testing/scripted_model.ts";
import { type DebatePorts, type DebateSetup, ModelError } from "../ports.ts";
import fc from "fast-check";

/** A run whose three roles agree with 0.99 on one diagnosis. */
async function agreeOn(
  lines: readonly string[],
  {
    ports = {},
    setup = {},
    calls = [call("http_get", { url: "http://pool/says/431-requests-are-waiting" })],
  }: {
    readonly ports?: Partial<DebatePorts>;
    readonly setup?: Partial<DebateSetup>;
    readonly calls?: readonly ReturnType<typeof call>[];
  } = {},
) {
  const fixture = new DebateFixture(
    {
      diagnostic_agent: [{ toolCalls: calls }, [DIAGNOSIS, ...lines].join("\n")],
      skeptic_agent: ["[hypothesis:1] accepted [P=0.99]"],
      moderator_agent: [JSON.stringify(sampleDecision({ status: "final_diagnosis", confidence: 0.99 }))],
    },
    setup,
    { tools: [FOUND], ...ports },
  );
  return { fixture, outcome: await fixture.run() };
}

const FOUND = new FixedTool("http_get", {
  ok: true,
  text:
    "GET http://pool/says/431-requests-are-waiting: 200 OK [2 ms]\n20 of 20 connections in use, 431 requests waiting",
});
const QUOTE = '- [tool:http_get#1] "20 of 20 connections in use"';

Deno.test.each([
  { name: "an invented call", lines: ['- [tool:http_get#7] "20 of 20 connections in use"'] },
  { name: "an invented quote", lines: ['- [tool:http_get#1] "the pool leaks connections"'] },
  { name: "its own comment", lines: ['- [tool:diagnostic_agent#1] "The connection pool is exhausted"'] },
  { name: "the tool's arguments", lines: ['- [tool:http_get#1] "says/431-requests-are-waiting"'] },
  { name: "a common word", lines: ['- [tool:http_get#1] "connections"'] },
  { name: "the tool alone", lines: ["- [tool:http_get] shows it"] },
])("three models that agree with 0.99 on $name end without a confident cause", async ({ lines }) => {
  const { outcome, fixture } = await agreeOn(lines);
  assert.deepEqual(outcome.hypotheses.map(({ state }) => state), ["active"]);
  assert.equal(outcome.decision?.confidence, 0.6);
  assert.equal(outcome.decision?.grounding?.outcome, "no_confident_cause");
  assert.match(
    outcome.finalText,
    /^Status: final_diagnosis\n\nOutcome: No confident cause\n\nConfidence: 0\.60 \(0\.99 stated/,
  );
  assert.equal(fixture.of("moderator_decision")[0]?.decision.confidence, 0.6);
});

Deno.test.each([
  {
    name: "fails",
    ports: { tools: [new FixedTool("http_get", { ok: false, text: "x\n20 of 20 connections in use" })] },
  },
  { name: "throws", ports: { tools: [new FixedTool("http_get", () => Promise.reject(new Error("bug")))] } },
  { name: "is not approved", ports: { tools: [FOUND], approve: () => Promise.resolve("rejected" as const) } },
  { name: "does not exist", ports: { tools: [new FixedTool("other")] } },
  { name: "is missing because no tools exist", ports: { tools: [] } },
])("a call is never evidence if its tool $name", async ({ ports }) => {
  const { outcome } = await agreeOn([QUOTE], { ports });
  assert.deepEqual(outcome.hypotheses.map(({ state }) => state), ["active"]);
  assert.deepEqual([outcome.decision?.confidence, outcome.decision?.grounding?.level], [0.6, "none"]);
});

Deno.test("a call over the budget is never evidence", async () => {
  const calls = [call("http_get", { a: 1 }, "a"), call("http_get", { a: 2 }, "b")];
  const { outcome } = await agreeOn(['- [tool:http_get#2] "20 of 20 connections in use"'], {
    calls,
    setup: { toolBudget: 1 },
  });
  assert.equal(outcome.decision?.grounding?.level, "none");
});

Deno.test("a cached result does not count as a second result, and its heading is not evidence", async () => {
  const calls = [call("http_get", { a: 1 }, "a"), call("http_get", { a: 1 }, "b")];
  const cached = '- [tool:http_get#2] "431 requests waiting"';
  const { outcome } = await agreeOn([QUOTE, cached], { calls });
  assert.deepEqual([outcome.decision?.grounding?.level, outcome.decision?.confidence], ["partial", 0.85]);
  const heading = await agreeOn(['- [tool:http_get#2] "cached: http_get of Primary Diagnosis, round 1"'], {
    calls,
  });
  assert.equal(heading.outcome.decision?.grounding?.level, "none");
});

Deno.test("a cause with evidence from one result is not confirmed, even if all agents agree", async () => {
  const { outcome } = await agreeOn([QUOTE]);
  assert.deepEqual(outcome.hypotheses.map(({ state }) => state), ["active"]);
  const { confidence, grounding } = outcome.decision ?? {};
  assert.deepEqual([confidence, grounding?.outcome], [0.85, "no_confident_cause"]);
  assert.match(
    outcome.finalText,
    /Outcome: No confident cause\n\nConfidence: 0\.85 .*a second one is missing/,
  );
});

Deno.test("prompts show which results count and which lines do not", async () => {
  const { fixture } = await agreeOn([QUOTE, '- [tool:http_get#1] "the pool leaks connections"']);
  const moderator = fixture.model.requests.find(({ purpose }) => purpose === "moderator_agent");
  const prompt = moderator?.messages.map(({ content }) => content).join("\n") ?? "";
  assert.ok(prompt.includes('"20 of 20 connections in use" (counts)'), prompt);
  assert.ok(
    prompt.includes(
      '"the pool leaks connections" (does not count: the cited result does not contain the quote)',
    ),
  );
});

Deno.test("inherited evidence still counts, but its call numbers are invalid in the new run", async () => {
  const before = await agreeOn([QUOTE]);
  const initial = { history: [], hypotheses: before.outcome.hypotheses };
  const { outcome } = await agreeOn(['- [tool:http_get#1] "nobody returned this"'], { setup: { initial } });
  assert.equal(outcome.decision?.grounding?.level, "partial");
  assert.deepEqual(outcome.hypotheses[0]?.evidence.map(({ round, status }) => [round, status]), [
    [0, "grounded"],
    [1, "not_in_result"],
  ]);
});

Deno.test("takeTurn() reopens a rejected hypothesis only with evidence that counts, from a call of this turn", async () => {
  const again = `${DIAGNOSIS}\n- [tool:http_get#1] "50 of 50 in use"`;
  const script = {
    diagnostic_agent: [DIAGNOSIS, { toolCalls: [call("http_get")] }, again],
    skeptic_agent: ["[hypothesis:1] rejected\nReason: no proof", "hm"],
    moderator_agent: ['{"status":"continue"}', '{"status":"structured_uncertainty"}'],
  };
  const used = new DebateFixture(script, {}, {
    tools: [new FixedTool("http_get", { ok: true, text: "GET\n50 of 50 in use" })],
  });
  const [reopened] = (await used.run()).hypotheses;
  assert.deepEqual([reopened?.state, reopened?.transitions.map(({ to }) => to)], [
    "active",
    ["active", "rejected", "active"],
  ]);
  const failing = new DebateFixture(script, {}, {
    tools: [new FixedTool("http_get", { ok: false, text: "no" })],
  });
  assert.deepEqual((await failing.run()).hypotheses[0]?.state, "rejected");
});

const text = fc.oneof(
  fc.string(),
  fc.constantFrom(
    CLOSING,
    CONTINUE,
    DIAGNOSIS,
    "[hypothesis:1] rejected",
    "{",
    '{"status":',
    "EARLY_OUT_RECOMMENDED: true",
  ),
);
const toolCall = fc.record({
  id: fc.oneof(fc.string(), fc.constant("c1")),
  name: fc.oneof(fc.string(), fc.constantFrom("http_get", "broken", "__proto__", "toString")),
  arguments: fc.oneof(fc.string(), fc.json(), fc.constant("{}"), fc.constant('{"__proto__":{"a":1}}')),
});
const count = fc.oneof(fc.nat(), fc.constantFrom(NaN, -1, Infinity));
const usage = fc.record({ input_tokens: count, output_tokens: count, total_tokens: count });
const answer: fc.Arbitrary<Answer> = fc.oneof(
  { weight: 8, arbitrary: text },
  { weight: 8, arbitrary: fc.record({ text, toolCalls: fc.array(toolCall, { maxLength: 4 }), usage }) },
  { weight: 1, arbitrary: fc.constantFrom(new ModelError("bad_reply", "no"), new ModelError("rate", "no")) },
  { weight: 1, arbitrary: fc.constant(() => Promise.reject(new Error("s3cr3t"))) },
);
const answers = fc.array(answer, { minLength: 1, maxLength: 6 });
const script = fc.record({
  diagnostic_agent: answers,
  skeptic_agent: answers,
  diagnostic_rebuttal_agent: answers,
  moderator_agent: answers,
  summarize_history: answers,
});

Deno.test("conductDebate() ends for any model output, within its limits and with ordered events", async () => {
  await fc.assert(
    fc.asyncProperty(script, fc.integer({ min: 1, max: 5 }), async (hostile, maxRounds) => {
      const tools = [new FixedTool(), new FixedTool("broken", () => Promise.reject(new Error("s3cr3t")))];
      const fixture = new DebateFixture(hostile, { maxRounds, toolBudget: 4 }, { tools });
      const outcome = await fixture.run();
      const types = fixture.types();
      assert.equal(types[0], "run_started");
      assert.equal(types.includes("final_result"), outcome.status === "completed");
      assert.equal(outcome.status === "error", outcome.error !== undefined);
      assert.ok(fixture.of("moderator_decision").length <= maxRounds);
      assert.ok(fixture.model.requests.length <= maxRounds * (3 * 6 + 3));
      assert.ok(fixture.of("tool_call").length <= maxRounds * 3 * 4);
      assert.equal(fixture.audit.length, fixture.of("tool_call").length);
      const started = fixture.of("tool_call_started").map(({ call_id }) => call_id);
      const ended = new Set(fixture.of("tool_call").map(({ call_id }) => call_id));
      assert.ok(started.every((id) => ended.has(id)));
      assert.ok(Number.isSafeInteger(outcome.usage.total.total_tokens));
      assert.doesNotMatch(JSON.stringify([fixture.events, outcome, fixture.warnings]), /s3cr3t/);
      assert.equal(fixture.clock.sleeping, 0);
    }),
    { numRuns: 200 },
  );
});
