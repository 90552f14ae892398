import assert from "node:assert/strict";
import { DebateFixture, DIAGNOSIS, FixedTool } from "../../testing/debate_fixture.ts";
import { type Answer, call } from "../../testing/scripted_model.ts";

const calling = (...calls: ReturnType<typeof call>[]): Answer => ({ toolCalls: calls });

Deno.test("takeTurn() gives another agent of the round the result again, without running it or asking", async () => {
  const tool = new FixedTool();
  let asked = 0;
  const fixture = new DebateFixture(
    {
      diagnostic_agent: [calling(call("http_get", { a: 1, b: { c: 2, d: 3 } })), DIAGNOSIS],
      skeptic_agent: [calling(call("http_get", { b: { d: 3, c: 2 }, a: 1 })), "ok"],
    },
    {},
    {
      tools: [tool],
      approve: () => {
        asked++;
        return Promise.resolve("approved");
      },
    },
  );
  await fixture.run();
  assert.deepEqual([tool.runs.length, asked], [1, 1]);
  const [, cached] = fixture.of("tool_call");
  assert.deepEqual(
    [cached?.result, cached?.approval, cached?.cached, cached?.duration_ms],
    ["[cached: http_get of Primary Diagnosis, round 1]\n200 OK", "cached", true, 0],
  );
  assert.equal(fixture.of("tool_call_started").length, 1);
  assert.equal(fixture.audit.length, 2);
});

Deno.test("takeTurn() runs a tool again in the next round", async () => {
  const tool = new FixedTool();
  const fixture = new DebateFixture(
    {
      diagnostic_agent: [calling(call("http_get")), DIAGNOSIS, calling(call("http_get")), DIAGNOSIS],
      moderator_agent: [
        '{"status":"continue","confidence":0.1}',
        '{"status":"final_diagnosis","confidence":1}',
      ],
    },
    {},
    { tools: [tool] },
  );
  await fixture.run();
  assert.equal(tool.runs.length, 2);
});
