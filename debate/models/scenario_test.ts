import { AppError } from "@gateway/shared/errors";
import assert from "node:assert/strict";
import { loadScenario, parseScenario } from "./replay.ts";

function problemOf(text: string): string {
  try {
    parseScenario(text, "my.json");
  } catch (error) {
    assert.ok(error instanceof AppError && error.code === "invalid_config");
    return error.message;
  }
  return assert.fail("accepted");
}

Deno.test("parseScenario() fills in what may be left out, and takes comments", () => {
  const scenario = parseScenario(
    `{
      // one round
      "rounds": [{ "skeptic_agent": [{ "text": "a" }, { "text": ["b", "c"], "tool_calls": [{ "name": "t" }] }], }],
    }`,
    "my.json",
  );
  const plain = { tool_calls: [], expect: [], delay_ms: 0 };
  assert.deepEqual(structuredClone(scenario), {
    description: "",
    topic: "",
    variables: {},
    rounds: [{
      skeptic_agent: [
        { ...plain, text: ["a"] },
        { ...plain, text: ["b", "c"], tool_calls: [{ name: "t", arguments: {} }] },
      ],
    }],
  });
});

Deno.test.each([
  { name: "nothing", text: "", problem: "the file is empty" },
  { name: "broken JSON", text: '{\n"rounds": [\n{"a" 1}]}', problem: "line 3, column 6: colon expected" },
  { name: "endless brackets", text: "[".repeat(100_000), problem: "nested too deeply" },
  { name: "a list", text: "[]", problem: "expected an object { … }" },
  {
    name: "no rounds",
    text: '{\n"rounds":\n[]}',
    problem: "rounds: must be at least 1 entries long, is 0",
  },
  {
    name: "a missing key",
    text: "{}",
    problem: 'missing key "rounds"',
  },
  {
    name: "an unknown node",
    text: '{\n"rounds": [\n{\n"sceptic_agent": []}]}',
    problem: 'unknown key "rounds[0].sceptic_agent" (did you mean "skeptic_agent"?)',
  },
  {
    name: "a wrong type, deep down",
    text: '{"rounds": [{\n"skeptic_agent": [\n{"text": "a"},\n{"text": 7}\n]}]}',
    problem: "rounds[0].skeptic_agent[1].text: expected a text, or a list of lines",
  },
  {
    name: "a part without replies",
    text: '{"rounds": [\n{"skeptic_agent": []}]}',
    problem: "rounds[0].skeptic_agent: must be at least 1 entries long, is 0",
  },
  {
    name: "a variable that is not declared",
    text: '{"rounds": [{"skeptic_agent": [\n{"text": "see {{place}}"}]}]}',
    problem: 'rounds: variable "place" is not declared',
  },
  {
    name: "a key that is a command",
    text: '{"__proto__": {"rounds": []},\n"rounds": [{}]}',
    problem: 'key "__proto__" is not allowed',
  },
])("parseScenario() refuses $name with key and reason", ({ text, problem }) => {
  assert.equal(problemOf(text), `Cannot load scenario "my.json": ${problem}`);
});

Deno.test("parseScenario() reports all problems at once", () => {
  assert.equal(
    problemOf('{"description": 1,\n"rounds": [{}], "more": 1}'),
    [
      'Cannot load scenario "my.json": 2 problems',
      "description: must be a string, is a whole number",
      'unknown key "more"',
    ].join("\n  "),
  );
});

Deno.test.each([
  { name: "certificate_expired", rounds: 3 },
  { name: "memory_leak", rounds: 2 },
  { name: "slow_query", rounds: 2 },
])("the scenario $name ships, and is complete", async ({ name, rounds }) => {
  const scenario = await loadScenario(name, "");
  assert.equal(scenario.rounds.length, rounds);
  assert.notEqual(scenario.topic, "");
  for (const round of scenario.rounds) {
    const replies = Object.values(round).flat();
    assert.ok(replies.every(({ usage }) => usage !== undefined));
    assert.ok(replies.some(({ tool_calls }) => tool_calls.length > 0), "tools run in each round");
    const [decision] = round.moderator_agent ?? [];
    assert.ok(
      ["continue", "final_diagnosis", "propose_fix"].includes(
        JSON.parse(decision?.text.join("\n") ?? "").status,
      ),
    );
  }
});

Deno.test.each([
  { name: "nothing_such" },
  { name: "../secret" },
  { name: "constructor" },
  { name: "" },
])("loadScenario() knows no $name, and says what there is", async ({ name }) => {
  await assert.rejects(loadScenario(name, ""), (error) => {
    assert.ok(error instanceof AppError && error.code === "not_found");
    assert.match(error.message, /there are certificate_expired, memory_leak, slow_query$/);
    return true;
  });
});
