import assert from "node:assert/strict";
import fc from "fast-check";
import { ReplyAssembler } from "./chat_completions.ts";
import { ModelError, type ModelReply } from "../engine/model.ts";

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
    name: "one call in pieces",
    chunks: [
      call({ index: 0, id: "c1", type: "function", function: { name: "http_get", arguments: "" } }),
      call({ index: 0, function: { arguments: '{"url":' } }),
      call({ index: 0, function: { arguments: '"http://a"}' } }),
    ],
    calls: [{ id: "c1", name: "http_get", arguments: '{"url":"http://a"}' }],
  },
  {
    name: "two calls in alternation",
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
    name: "calls without index and id",
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
    name: "the id in every piece",
    chunks: [
      call({ index: 0, id: "c1", function: { name: "a", arguments: "{" } }),
      call({ index: 0, id: "c1", function: { name: "a", arguments: "}" } }),
    ],
    calls: [{ id: "c1", name: "a", arguments: "{}" }],
  },
  {
    name: "the same id twice",
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
    name: "a wild index",
    chunks: [call({ index: 1e9, id: "c", function: { name: "a", arguments: "{}" } })],
    calls: [{ id: "c", name: "a", arguments: "{}" }],
  },
  {
    name: "a call of nothing",
    chunks: [call({ index: 0, id: "c", function: {} }), call({}), call({ index: 0 })],
    calls: [],
  },
])("ReplyAssembler puts together $name", ({ chunks, calls }) => {
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

Deno.test("ReplyAssembler shows a refusal", () => {
  assert.equal(assemble(chunk({ refusal: "I must not." })).text, "I must not.");
});

Deno.test("ReplyAssembler ignores other choices than the first", () => {
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
])("ReplyAssembler takes the last usage that has $name", ({ usage, total }) => {
  const early = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 };
  const reply = assemble({ ...chunk({ content: "a" }), usage: early }, { choices: [], usage });
  assert.deepEqual(reply.usage, { input_tokens: 5, output_tokens: 2, total_tokens: total });
});

Deno.test("ReplyAssembler knows no usage from null or nonsense", () => {
  assert.equal(assemble({ ...chunk({ content: "a" }), usage: null }).usage, undefined);
  assert.equal(assemble({ choices: [], usage: "5" }).usage, undefined);
});

Deno.test.each([
  { name: "length" },
  { name: "content_filter" },
  { name: "brand_new_reason" },
])("ReplyAssembler takes a text that ended for the reason $name", ({ name }) => {
  assert.equal(assemble(chunk({ content: "a" }), chunk({}, { finish_reason: name })).text, "a");
});

Deno.test.each([
  { reason: "length", isCut: true },
  { reason: "stop", isCut: undefined },
])("ReplyAssembler says whether a reply that ended for the reason $reason is cut", ({ reason, isCut }) => {
  assert.equal(assemble(chunk({ content: "a" }), chunk({}, { finish_reason: reason })).isCut, isCut);
});

Deno.test("ReplyAssembler is finished by any reason, and by no empty one", () => {
  const assembler = new ReplyAssembler();
  assembler.add(chunk({}, { finish_reason: null }));
  assembler.add(chunk({}, { finish_reason: "" }));
  assert.equal(assembler.isFinished, false);
  assembler.add(chunk({}, { finish_reason: "brand_new_reason" }));
  assert.equal(assembler.isFinished, true);
});

Deno.test("ReplyAssembler keeps the usage of a reply that was withheld", () => {
  assert.throws(
    () => assemble({ ...chunk({}, { finish_reason: "content_filter" }), usage: { prompt_tokens: 3 } }),
    (error) => error instanceof ModelError && error.kind === "bad_reply" && error.usage?.input_tokens === 3,
  );
});

Deno.test.each([
  {
    name: "calls without end",
    piece: (index: number) => call({ index, id: `c${index}`, function: { name: "a", arguments: "{}" } }),
  },
  {
    name: "arguments without end",
    piece: () => call({ index: 0, id: "c", function: { name: "a", arguments: "x".repeat(10_000) } }),
  },
])("ReplyAssembler gives up on $name", ({ piece }) => {
  const assembler = new ReplyAssembler();
  assert.throws(() => {
    for (let index = 0; index < 100; index++) assembler.add(piece(index));
  }, ModelError);
});

Deno.test("ReplyAssembler cuts text between characters", () => {
  const assembler = new ReplyAssembler();
  assembler.add(chunk({ content: "a".repeat(199_999) }));
  assert.equal(assembler.isFull, false);
  assembler.add(chunk({ content: "\u{1F4A5}" }));
  assert.equal(assembler.isFull, true);
  assert.ok(assembler.finish(0).text.isWellFormed());
});

Deno.test("ReplyAssembler survives whatever a provider sends", () => {
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
