import fc from "fast-check";
import assert from "node:assert/strict";
import { CLOSING, CONTINUE, DebateFixture, DIAGNOSIS, FixedTool } from "../../testing/debate_fixture.ts";
import type { Answer } from "../../testing/scripted_model.ts";
import { ModelError } from "../model.ts";

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

Deno.test("holdDebate() ends whatever its models say, within bounds and in order", async () => {
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
