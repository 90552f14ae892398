import assert from "node:assert/strict";
import fc from "fast-check";
import { ReplyAssembler } from "./chat_completions.ts";
import { ModelError, type ModelReply } from "../engine/ports.ts";
import { AppError } from "@gateway/shared/errors";
import { loadScenario, parseScenario } from "./replay.ts";

const chunk = (delta: unknown, rest: Record<string, unknown> = {}) => ({
  choices: [{ index: 0, delta, ...rest }],
});

const call = (fields: Record<string, unknown>) => chunk({ tool_calls: [fields] });

function assemble(...chunks: unknown[]): ModelReply {
  const assembler = new ReplyAssembler();
  for (const value of chunks) assembler.add(value);
  return assembler.finish(3);
}

Deno.test.each([
  {
    name: "one call in several chunks",
    chunks: [
      call({ index: 0, id: "c1", type: "function", function: { name: "http_get", arguments: "" } }),
      call({ index: 0, function: { arguments: '{"url":' } }),
      call({ index: 0, function: { arguments: '"http://a"}' } }),
    ],
    calls: [{ id: "c1", name: "http_get", arguments: '{"url":"http://a"}' }],
  },
  {
    name: "two calls in alternating chunks",
    chunks: [
      call({ index: 0, id: "c1", function: { name: "a", arguments: "{" } }),
      call({ index: 1, id: "c2", function: { name: "b", arguments: "{" } }),
      call({ index: 0, function: { arguments: "}" } }),
      call({ index: 1, function: { arguments: ' "x": 1}' } }),
    ],
    calls: [{ id: "c1", name: "a", arguments: "{}" }, { id: "c2", name: "b", arguments: '{ "x": 1}' }],
  },
  {
    name: "calls that all have the index 0",
    chunks: [
      call({ index: 0, id: "c1", function: { name: "a", arguments: "{}" } }),
      call({ index: 0, id: "c2", function: { name: "b", arguments: "{}" } }),
    ],
    calls: [{ id: "c1", name: "a", arguments: "{}" }, { id: "c2", name: "b", arguments: "{}" }],
  },
  {
    name: "calls without an index",
    chunks: [
      chunk({
        tool_calls: [
          { id: "c1", function: { name: "a", arguments: "{}" } },
          { id: "c2", function: { name: "b", arguments: "{}" } },
        ],
      }),
    ],
    calls: [{ id: "c1", name: "a", arguments: "{}" }, { id: "c2", name: "b", arguments: "{}" }],
  },
  {
    name: "calls without index and ID",
    chunks: [
      call({ function: { name: "a", arguments: '{"x"' } }),
      call({ function: { arguments: ":1}" } }),
      call({ function: { name: "b" } }),
    ],
    calls: [
      { id: "call_3_0", name: "a", arguments: '{"x":1}' },
      { id: "call_3_1", name: "b", arguments: "" },
    ],
  },
  {
    name: "the ID in every chunk",
    chunks: [
      call({ index: 0, id: "c1", function: { name: "a", arguments: "{" } }),
      call({ index: 0, id: "c1", function: { name: "a", arguments: "}" } }),
    ],
    calls: [{ id: "c1", name: "a", arguments: "{}" }],
  },
  {
    name: "the same ID twice",
    chunks: [
      call({ index: 0, id: "c", function: { name: "a", arguments: "{}" } }),
      call({ index: 1, id: "c", function: { name: "b", arguments: "{}" } }),
    ],
    calls: [{ id: "c", name: "a", arguments: "{}" }, { id: "call_3_1", name: "b", arguments: "{}" }],
  },
  {
    name: "arguments as an object",
    chunks: [call({ index: 0, id: "c", function: { name: "a", arguments: { url: "x" } } })],
    calls: [{ id: "c", name: "a", arguments: '{"url":"x"}' }],
  },
  {
    name: "a signature, which the provider requires back",
    chunks: [
      call({ index: 0, id: "c", function: { name: "a", arguments: "{}" }, extra_content: { google: "s" } }),
    ],
    calls: [{ id: "c", name: "a", arguments: "{}", extra: { google: "s" } }],
  },
  {
    name: "a very large index",
    chunks: [call({ index: 1e9, id: "c", function: { name: "a", arguments: "{}" } })],
    calls: [{ id: "c", name: "a", arguments: "{}" }],
  },
  {
    name: "a call without a name",
    chunks: [call({ index: 0, id: "c", function: {} }), call({}), call({ index: 0 })],
    calls: [],
  },
])("ReplyAssembler assembles $name", ({ chunks, calls }) => {
  assert.deepEqual(assemble(...chunks, chunk({}, { finish_reason: "tool_calls" })).toolCalls, calls);
});

Deno.test.each([
  { name: "a string", content: "text", text: "text" },
  { name: "null", content: null, text: "" },
  {
    name: "blocks, of which thoughts do not count",
    content: [
      { type: "reasoning", text: "hm" },
      { type: "text", text: "a" },
      { type: "thinking", thinking: "hm" },
      { type: "text", text: "b" },
      { type: "output_text", text: "c" },
      "d",
      null,
    ],
    text: "abc",
  },
  { name: "a number", content: 7, text: "" },
])("ReplyAssembler reads content that is $name", ({ content, text }) => {
  assert.equal(assemble(chunk({ content })).text, text);
  assert.equal(assemble({ choices: [{ message: { content }, finish_reason: "stop" }] }).text, text);
});

Deno.test("ReplyAssembler returns a refusal as text", () => {
  assert.equal(assemble(chunk({ refusal: "I must not." })).text, "I must not.");
});

Deno.test("ReplyAssembler ignores all choices except the first", () => {
  assert.equal(
    assemble({ choices: [{ index: 1, delta: { content: "no" } }] }, chunk({ content: "yes" })).text,
    "yes",
  );
});

Deno.test.each([
  { name: "all of it", usage: { prompt_tokens: 5, completion_tokens: 2, total_tokens: 9 }, total: 9 },
  { name: "no total", usage: { prompt_tokens: 5, completion_tokens: 2 }, total: 7 },
  {
    name: "a broken total",
    usage: { prompt_tokens: 5, completion_tokens: 2, total_tokens: "many" },
    total: 7,
  },
])("ReplyAssembler uses the last usage with $name", ({ usage, total }) => {
  const early = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 };
  const reply = assemble({ ...chunk({ content: "a" }), usage: early }, { choices: [], usage });
  assert.deepEqual(reply.usage, { input_tokens: 5, output_tokens: 2, total_tokens: total });
});

Deno.test("ReplyAssembler ignores an invalid usage", () => {
  assert.equal(assemble({ ...chunk({ content: "a" }), usage: null }).usage, undefined);
  assert.equal(assemble({ choices: [], usage: "5" }).usage, undefined);
});

Deno.test.each([
  { name: "length" },
  { name: "content_filter" },
  { name: "brand_new_reason" },
])("ReplyAssembler accepts a text with the finish reason $name", ({ name }) => {
  assert.equal(assemble(chunk({ content: "a" }), chunk({}, { finish_reason: name })).text, "a");
});

Deno.test.each([
  { reason: "length", isCut: true },
  { reason: "stop", isCut: undefined },
])("ReplyAssembler reports whether the finish reason $reason means truncation", ({ reason, isCut }) => {
  assert.equal(assemble(chunk({ content: "a" }), chunk({}, { finish_reason: reason })).isCut, isCut);
});

Deno.test("ReplyAssembler is finished after any non-empty finish reason", () => {
  const assembler = new ReplyAssembler();
  assembler.add(chunk({}, { finish_reason: null }));
  assembler.add(chunk({}, { finish_reason: "" }));
  assert.equal(assembler.isFinished, false);
  assembler.add(chunk({}, { finish_reason: "brand_new_reason" }));
  assert.equal(assembler.isFinished, true);
});

Deno.test("ReplyAssembler keeps the usage of a withheld reply", () => {
  assert.throws(
    () => assemble({ ...chunk({}, { finish_reason: "content_filter" }), usage: { prompt_tokens: 3 } }),
    (error) => error instanceof ModelError && error.kind === "bad_reply" && error.usage?.input_tokens === 3,
  );
});

Deno.test.each([
  {
    name: "an endless number of calls",
    piece: (index: number) => call({ index, id: `c${index}`, function: { name: "a", arguments: "{}" } }),
  },
  {
    name: "endless signatures",
    piece: () => call({ index: 0, id: "c", function: {}, extra_content: { s: "x".repeat(10_000) } }),
  },
  {
    name: "endless arguments",
    piece: () => call({ index: 0, id: "c", function: { name: "a", arguments: "x".repeat(10_000) } }),
  },
])("ReplyAssembler rejects $name", ({ piece }) => {
  const assembler = new ReplyAssembler();
  assert.throws(() => {
    for (let index = 0; index < 100; index++) assembler.add(piece(index));
  }, ModelError);
});

Deno.test("ReplyAssembler truncates text between characters", () => {
  const assembler = new ReplyAssembler();
  assembler.add(chunk({ content: "a".repeat(199_999) }));
  assert.equal(assembler.isFull, false);
  assembler.add(chunk({ content: "\u{1F4A5}" }));
  assert.equal(assembler.isFull, true);
  assert.ok(assembler.finish(0).text.isWellFormed());
});

Deno.test("ReplyAssembler accepts any input from a provider", () => {
  const key = fc.constantFrom(
    "choices",
    "delta",
    "message",
    "tool_calls",
    "function",
    "usage",
    "index",
    "id",
    "content",
  );
  fc.assert(fc.property(fc.array(fc.object({ key, maxDepth: 6 })), (chunks) => {
    const reply = assemble(...chunks, null, 1, "x", []);
    assert.ok(reply.text.length < 200_000);
  }));
});

function problemOf(text: string): string {
  try {
    parseScenario(text, "my.json");
  } catch (error) {
    assert.ok(error instanceof AppError && error.code === "invalid_config");
    return error.message;
  }
  return assert.fail("accepted");
}

Deno.test("parseScenario() fills in defaults and accepts comments", () => {
  const scenario = parseScenario(
    `{
      // one round
      "rounds": [{ "skeptic_agent": [{ "text": "a" }, { "text": ["b", "c"], "tool_calls": [{ "name": "t" }] }], }],
    }`,
    "my.json",
  );
  const plain = { tool_calls: [], delay_ms: 0 };
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
  { name: "an empty file", text: "", problem: "the file is empty" },
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
    name: "a wrong type in a nested value",
    text: '{"rounds": [{\n"skeptic_agent": [\n{"text": "a"},\n{"text": 7}\n]}]}',
    problem: "rounds[0].skeptic_agent[1].text: expected a text, or a list of lines",
  },
  {
    name: "a part without replies",
    text: '{"rounds": [\n{"skeptic_agent": []}]}',
    problem: "rounds[0].skeptic_agent: must be at least 1 entries long, is 0",
  },
  {
    name: "an undeclared variable",
    text: '{"rounds": [{"skeptic_agent": [\n{"text": "see {{place}}"}]}]}',
    problem: 'rounds: variable "place" is not declared',
  },
  {
    name: "the key __proto__",
    text: '{"__proto__": {"rounds": []},\n"rounds": [{}]}',
    problem: 'key "__proto__" is not allowed',
  },
])("parseScenario() rejects $name with key and reason", ({ text, problem }) => {
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
])("the built-in scenario $name is complete", async ({ name, rounds }) => {
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
])("loadScenario() rejects $name and lists the available scenarios", async ({ name }) => {
  await assert.rejects(loadScenario(name, ""), (error) => {
    assert.ok(error instanceof AppError && error.code === "not_found");
    assert.match(error.message, /; available: certificate_expired, memory_leak, slow_query$/);
    return true;
  });
});
