import { FakeClock } from "@gateway/shared/testing";
import assert from "node:assert/strict";
import fc from "fast-check";
import { ModelError, type ModelRequest } from "../engine/model.ts";
import { parseScenario, replayModel } from "./replay.ts";

function replayOf(scenario: Record<string, unknown>, pieceDelayMs = 0) {
  const clock = new FakeClock();
  const id = "replay/mine";
  const parsed = parseScenario(JSON.stringify(scenario), "mine.json");
  return { clock, model: replayModel({ id, scenario: parsed, clock, pieceDelayMs }) };
}

const tool = { name: "http_get", description: "", parameters: {} };

function requestOf(request: Partial<ModelRequest> = {}): ModelRequest {
  return {
    messages: [{ role: "system", content: "You are" }, { role: "user", content: "Why?" }],
    tools: [tool],
    temperature: 0.2,
    signal: new AbortController().signal,
    purpose: "diagnostic_agent",
    round: 1,
    ...request,
  };
}

async function failureOf(promise: Promise<unknown>): Promise<ModelError> {
  const [result] = await Promise.allSettled([promise]);
  assert.ok(result?.status === "rejected" && result.reason instanceof ModelError);
  return result.reason;
}

const one = (reply: unknown) => ({ rounds: [{ diagnostic_agent: [reply] }] });

Deno.test("replayModel() gives the replies of each node and round in order", async () => {
  const { model } = replayOf({
    rounds: [
      { diagnostic_agent: [{ text: "1" }, { text: "2" }], skeptic_agent: [{ text: "s" }] },
      { diagnostic_agent: [{ text: ["3", "more"] }] },
    ],
  });
  const say = async (request: Partial<ModelRequest>) => (await model.complete(requestOf(request))).text;
  assert.equal(await say({}), "1");
  assert.equal(await say({ purpose: "skeptic_agent" }), "s");
  assert.equal(await say({}), "2");
  assert.equal(await say({ round: 2 }), "3\nmore");
});

Deno.test("replayModel() calls tools with the values that topic or context give", async () => {
  const { model } = replayOf({
    variables: { service: { label: "Service" }, files: { label: "Log files", default: "/var/log" } },
    ...one({
      text: "I look at {{service}}",
      tool_calls: [{
        name: "http_get",
        arguments: { url: "{{service}}/health", in: ["{{files}}", 7, { n: null }] },
      }],
      usage: { input_tokens: 5, output_tokens: 2 },
    }),
  });
  const content = "It fails.\r\n\n- Service: http://127.0.0.1:1\nService: http://other";
  assert.deepEqual(await model.complete(requestOf({ messages: [{ role: "user", content }] })), {
    text: "I look at http://127.0.0.1:1",
    toolCalls: [{
      id: "call_1_0",
      name: "http_get",
      arguments: '{"url":"http://127.0.0.1:1/health","in":["/var/log",7,{"n":null}]}',
    }],
    usage: { input_tokens: 5, output_tokens: 2, total_tokens: 7 },
  });
});

Deno.test.each([
  { name: "there are none", request: { tools: [] } },
  { name: "they may not be called any more", request: { toolChoice: "none" as const } },
])("replayModel() passes over replies that call tools when $name", async ({ request }) => {
  const call = { text: "look", tool_calls: [{ name: "http_get" }] };
  const { model } = replayOf({ rounds: [{ diagnostic_agent: [call, call, { text: "done" }] }] });
  assert.equal((await model.complete(requestOf(request))).text, "done");
});

Deno.test.each([
  {
    name: "its rounds are over",
    request: { round: 3 },
    text: "round 3: diagnostic_agent has nothing to say: the script ends after round 2",
  },
  {
    name: "a node has no part",
    request: { purpose: "skeptic_agent" as const },
    text: "round 1: skeptic_agent has no part in the script",
  },
  {
    name: "a round is empty",
    request: { round: 2 },
    text: "round 2: diagnostic_agent has no part in the script",
  },
  {
    name: "its replies are used up",
    request: {},
    text: "round 1: diagnostic_agent has nothing more to say: the script gives 1 reply",
  },
])("replayModel() says so when $name", async ({ request, text }) => {
  const { model } = replayOf({ rounds: [{ diagnostic_agent: [{ text: "1" }] }, {}] });
  await model.complete(requestOf());
  const error = await failureOf(model.complete(requestOf(request)));
  assert.equal(error.message, `Scenario "replay/mine", ${text}`);
  assert.equal(error.kind, "server", "a bad reply would only be asked for again");
});

Deno.test("replayModel() checks that the prompt carries what the script expects", async () => {
  const { model } = replayOf({
    rounds: [{ diagnostic_agent: [{ text: "1", expect: ["You are"] }, { expect: ["tool result"] }] }],
  });
  assert.equal((await model.complete(requestOf())).text, "1");
  const error = await failureOf(model.complete(requestOf()));
  assert.match(error.message, /expects "tool result" in the prompt, which is not there$/);
});

Deno.test("replayModel() needs a value that has no default", async () => {
  const { model } = replayOf({
    variables: { service: { label: "Service" } },
    ...one({ text: "{{service}}" }),
  });
  const error = await failureOf(model.complete(requestOf()));
  assert.match(error.message, /needs a line "Service: …" in the topic or the context$/);
});

Deno.test("replayModel() fails as scripted, after its text", async () => {
  const { model } = replayOf(one({ text: "half", error: { kind: "rate", message: "too many" } }));
  const deltas: string[] = [];
  const error = await failureOf(model.complete(requestOf({ onDelta: (text) => deltas.push(text) })));
  assert.deepEqual([deltas, error.kind, error.message], [["half"], "rate", "too many"]);
});

Deno.test("replayModel() takes its time for each piece, and ends at once when cancelled", async () => {
  const { model, clock } = replayOf(one({ text: "one two three four five six seven", delay_ms: 1000 }), 10);
  const controller = new AbortController();
  const deltas: string[] = [];
  const failed = failureOf(
    model.complete(requestOf({ signal: controller.signal, onDelta: (text) => deltas.push(text) })),
  );
  await clock.advance(1009);
  assert.deepEqual(deltas, []);
  await clock.advance(1);
  assert.deepEqual(deltas, ["one two three four five "]);
  controller.abort();
  assert.equal((await failed).kind, "canceled");
  assert.equal(clock.sleeping, 0);
});

Deno.test("replayModel() streams exactly its text, in pieces that are not empty", async () => {
  await fc.assert(fc.asyncProperty(fc.string({ unit: "binary", maxLength: 300 }), async (text) => {
    const deltas: string[] = [];
    const script = { ...one({ text }), variables: {} };
    if (/\{\{\w+\}\}/.test(text)) return;
    const reply = await replayOf(script).model.complete(
      requestOf({ onDelta: (piece) => deltas.push(piece) }),
    );
    assert.equal(deltas.join(""), reply.text);
    assert.ok(deltas.every((piece) => piece !== ""));
  }));
});
