import assert from "node:assert/strict";
import { CLOSING, CONTINUE, DebateFixture, FixedTool } from "../../testing/debate_fixture.ts";
import { sampleDecision } from "../../testing/sample_state.ts";
import { type Answer, call, never, type Script } from "../../testing/scripted_model.ts";
import { ModelError, type ModelErrorKind, type ModelRequest } from "../ports.ts";
import { until } from "../../testing/chat_provider.ts";
import type { Usage } from "../events.ts";
import { MAX_REPLY } from "./debate.ts";
import { conductDebate } from "./conduct_debate.ts";

const usage = (tokens: number): Usage => ({
  input_tokens: tokens,
  output_tokens: tokens,
  total_tokens: 2 * tokens,
});

/** Sends a text, then hangs and ignores its signal. */
const stalled: Answer = (request: ModelRequest) => {
  request.onDelta?.("half a sen");
  return never();
};

Deno.test.each<{ kind: ModelErrorKind }>([
  { kind: "auth" },
  { kind: "rate" },
  { kind: "timeout" },
  { kind: "server" },
  { kind: "bad_reply" },
  { kind: "canceled" },
])("conductDebate() ends in an error if a model fails with $kind", async ({ kind }) => {
  const fixture = new DebateFixture({ skeptic_agent: [new ModelError(kind, `No reply: ${kind}`)] });
  const outcome = await fixture.run();
  assert.deepEqual([outcome.status, outcome.error, outcome.finalText], ["error", `No reply: ${kind}`, ""]);
  assert.equal(outcome.hypotheses.length, 1, "what there is stays");
  assert.equal(fixture.of("final_result").length, 0);
});

Deno.test("conductDebate() hides the text of an unexpected exception", async () => {
  const leaky: Answer = () => Promise.reject(new Error("token=s3cret"));
  const fixture = new DebateFixture({ diagnostic_agent: [leaky] });
  const outcome = await fixture.run();
  assert.equal(outcome.error, 'The model "replay/script" failed unexpectedly');
  assert.doesNotMatch(JSON.stringify([outcome, fixture.events, fixture.warnings]), /s3cret/);
});

Deno.test("conductDebate() ends in an error if a model exceeds its time limit", async () => {
  const fixture = new DebateFixture({ diagnostic_agent: [stalled] }, { timeouts: { modelMs: 5000 } });
  const outcome = await fixture.runUntil("agent_delta", () => fixture.clock.advance(5000));
  assert.deepEqual([outcome.status, outcome.error], [
    "error",
    'The model "replay/script" did not answer within 5 s',
  ]);
  assert.equal(fixture.clock.sleeping, 0);
});

Deno.test("conductDebate() ends if the run exceeds its time limit, even during a wait", async () => {
  const fixture = new DebateFixture({ moderator_agent: [CONTINUE] }, { timeouts: { runMs: 60_000 } }, {
    isPaused: () => true,
    waitForComment: never,
  });
  const outcome = await fixture.runUntil("awaiting_user_input", () => fixture.clock.advance(60_000));
  assert.deepEqual([outcome.status, outcome.error], ["error", "The run took longer than 60 s"]);
  assert.equal(fixture.clock.sleeping, 0);
});

Deno.test("conductDebate() truncates endless text and stops the model", async () => {
  let stopped: AbortSignal | undefined;
  const endless: Answer = (request) => {
    stopped = request.signal;
    for (let index = 0; index < 1000; index++) request.onDelta?.("endless ".repeat(100));
    return never();
  };
  const fixture = new DebateFixture({ diagnostic_agent: [endless] });
  const outcome = await fixture.run();
  assert.equal(outcome.status, "completed");
  assert.equal(fixture.of("agent_completed")[0]?.content.length, MAX_REPLY);
  assert.equal(fixture.of("agent_delta").map(({ delta }) => delta).join("").startsWith("endless"), true);
  assert.ok(fixture.of("agent_delta").length < 100);
  assert.equal(stopped?.aborted, true);
});

Deno.test("conductDebate() truncates a long text that is not streamed", async () => {
  const long: Answer = () =>
    Promise.resolve({ text: "x".repeat(1_000_000), toolCalls: [], usage: undefined });
  const fixture = new DebateFixture({ skeptic_agent: [long], moderator_agent: [long, CLOSING] });
  assert.equal((await fixture.run()).status, "completed");
  assert.equal(fixture.of("agent_completed")[1]?.content.length, MAX_REPLY);
});

Deno.test("conductDebate() ignores text that a model sends after its reply", async () => {
  let late: ((text: string) => void) | undefined;
  const chatty: Answer = (request) => {
    late = request.onDelta?.bind(request);
    return Promise.resolve({ text: "done", toolCalls: [], usage: undefined });
  };
  const fixture = await new DebateFixture({ diagnostic_agent: [chatty] }).ran();
  late?.("too late");
  assert.ok(fixture.of("agent_delta").every(({ delta }) => delta !== "too late"));
});

Deno.test("conductDebate() requests an answer once more after an empty one", async () => {
  const fixture = await new DebateFixture({ skeptic_agent: [" \n", "Here it is."] }).ran();
  assert.equal(fixture.of("agent_completed")[1]?.content, "Here it is.");
  assert.match(fixture.model.requests[2]?.messages.at(-1)?.content ?? "", /was empty/);
});

Deno.test("conductDebate() continues with a placeholder after two empty answers, without a hypothesis", async () => {
  const fixture = new DebateFixture({ diagnostic_agent: [""] });
  const outcome = await fixture.run();
  assert.equal(outcome.status, "completed");
  assert.equal(fixture.of("agent_completed")[0]?.content, "(The agent gave no answer. Tool calls made: 0.)");
  assert.deepEqual(outcome.hypotheses, []);
  assert.equal(fixture.model.requests.filter(({ purpose }) => purpose === "diagnostic_agent").length, 2);
});

Deno.test("conductDebate() reads a decision inside other text", async () => {
  const fixture = new DebateFixture({ moderator_agent: ["Sure:\n```json\n" + CLOSING + "\n```"] });
  assert.equal((await fixture.run()).decision?.status, "final_diagnosis");
});

Deno.test.each<{ name: string; first: Answer }>([
  { name: "prose", first: "I would go on." },
  { name: "nothing", first: "" },
  {
    name: "a refusal of structured output",
    first: new ModelError("bad_reply", "response_format is not supported"),
  },
])("conductDebate() requests plain JSON after $name", async ({ first }) => {
  const fixture = new DebateFixture({ moderator_agent: [first, CLOSING] });
  const outcome = await fixture.run();
  assert.equal(outcome.decision?.status, "final_diagnosis");
  assert.equal(fixture.model.requests.at(-1)?.jsonSchema, undefined);
  assert.match(fixture.model.requests.at(-1)?.messages.at(-1)?.content ?? "", /^Answer with one JSON object/);
});

Deno.test("conductDebate() completes with structured_uncertainty after an invalid decision and keeps its text", async () => {
  const fixture = new DebateFixture({ moderator_agent: ["No idea, " + "x".repeat(20_000)] });
  const outcome = await fixture.run();
  assert.deepEqual([outcome.status, outcome.decision?.status, outcome.decision?.confidence], [
    "completed",
    "structured_uncertainty",
    0,
  ]);
  const [event] = fixture.of("moderator_decision");
  assert.match(event?.raw ?? "", /^No idea, x+$/);
  assert.equal(event?.raw?.length, 8000);
});

Deno.test.each<{ kind: ModelErrorKind }>([{ kind: "rate" }, { kind: "bad_reply" }])(
  "conductDebate() fails if the moderator's provider fails with $kind",
  async ({ kind }) => {
    const fixture = new DebateFixture({
      moderator_agent: [new ModelError(kind, 'HTTP 404: "no such model"')],
    });
    const { status, error } = await fixture.run();
    assert.deepEqual([status, error], ["error", 'HTTP 404: "no such model"']);
  },
);

const limited = (pauseMs: number) => new ModelError("rate", "Too many requests", { pauseMs });

Deno.test("conductDebate() waits while a provider limits the rate, for 10 minutes at most", async () => {
  const fixture = new DebateFixture({ skeptic_agent: [limited(2500), limited(0), "Hm."] });
  const outcome = fixture.run();
  const waits = () => fixture.of("model_waiting").map(({ node, seconds }) => [node, seconds]);
  for (const [index, ms] of [2500, 2000].entries()) {
    await until(() => waits().length === index + 1 && fixture.clock.sleeping > 0);
    await fixture.clock.advance(ms - 1);
    assert.equal(waits().length, index + 1);
    await fixture.clock.advance(1);
  }
  assert.equal((await outcome).status, "completed");
  assert.deepEqual(waits(), [["skeptic_agent", 3], ["skeptic_agent", 2]]);

  const never = new DebateFixture({ skeptic_agent: [limited(60_000)] });
  const failed = never.run();
  for (let minute = 1; minute <= 10; minute++) {
    await until(() => never.of("model_waiting").length === minute && never.clock.sleeping > 0);
    await never.clock.advance(60_000);
  }
  assert.deepEqual([(await failed).error, never.of("model_waiting").length], ["Too many requests", 10]);
});

Deno.test("conductDebate() ends immediately if it is canceled while a provider limits the rate", async () => {
  const fixture = new DebateFixture({ moderator_agent: [limited(60_000)] });
  const outcome = await fixture.runUntil("model_waiting", () => fixture.cancel.abort());
  assert.deepEqual([outcome.status, fixture.clock.sleeping], ["cancelled", 0]);
});

const brokenOff: Answer = (request) => {
  request.onDelta?.("half a sen");
  return Promise.reject(new ModelError("server", "stopped in the middle"));
};

Deno.test.each([
  {
    name: "repeats a turn whose reply breaks off",
    answers: [brokenOff, "Whole."],
    said: "Whole.",
    status: "completed",
  },
  { name: "repeats it once", answers: [brokenOff], said: "half a sen", status: "error" },
])("conductDebate() $name", async ({ answers, said, status }) => {
  const fixture = new DebateFixture({ skeptic_agent: answers });
  assert.equal((await fixture.run()).status, status);
  const [, review] = fixture.of("agent_completed");
  assert.deepEqual([review?.content, review?.partial ?? false], [said, status === "error"]);
  const turns = fixture.of("agent_turn_started").filter(({ agent_node }) => agent_node === "skeptic_agent");
  assert.equal(turns.length, 2);
});

const cancelCases: readonly {
  name: string;
  script: Script;
  at: "agent_delta" | "tool_call_started" | "awaiting_user_input" | "agent_completed";
  nth?: number;
}[] = [
  { name: "a streaming model", script: { diagnostic_agent: [stalled] }, at: "agent_delta" },
  { name: "a tool", script: { diagnostic_agent: [{ toolCalls: [call("hang")] }] }, at: "tool_call_started" },
  { name: "a pause", script: { moderator_agent: [CONTINUE] }, at: "awaiting_user_input" },
];

Deno.test.each(cancelCases)(
  "conductDebate() ends immediately if it is canceled during $name",
  async ({ script, at }) => {
    let toolSignal: AbortSignal | undefined;
    const hang = new FixedTool("hang", (signal) => {
      toolSignal = signal;
      return never();
    });
    const fixture = new DebateFixture(script, {}, {
      tools: [hang],
      isPaused: () => true,
      waitForComment: never,
    });
    const outcome = await fixture.runUntil(at, () => fixture.cancel.abort());
    assert.equal(outcome.status, "cancelled");
    assert.equal(outcome.error, undefined);
    assert.equal(fixture.of("final_result").length, 0);
    assert.equal(fixture.clock.sleeping, 0);
    if (at === "tool_call_started") {
      assert.equal(toolSignal?.aborted, true);
      assert.deepEqual(fixture.audit.map(({ tool, error }) => [tool, error]), [["hang", true]]);
      assert.match(fixture.of("tool_call")[0]?.result ?? "", /the run ended while the tool was running/);
    }
  },
);

Deno.test.each<{ name: string; node: "moderator_agent" | "summarize_history" | "diagnostic_rebuttal_agent" }>(
  [
    { name: "a blocking model", node: "diagnostic_rebuttal_agent" },
    { name: "the moderator", node: "moderator_agent" },
    { name: "the summary", node: "summarize_history" },
  ],
)("conductDebate() ends immediately if it is canceled while it waits for $name", async ({ node }) => {
  const fixture = new DebateFixture({
    moderator_agent: [CONTINUE],
    [node]: [() => {
      queueMicrotask(() => fixture.cancel.abort());
      return never();
    }],
  });
  const outcome = await fixture.run();
  assert.equal(outcome.status, "cancelled");
  assert.ok(outcome.history.length > 0, "what was said stays");
});

Deno.test("conductDebate() does nothing if it is canceled before it starts", async () => {
  const fixture = new DebateFixture();
  fixture.cancel.abort();
  assert.equal((await fixture.run()).status, "cancelled");
  assert.equal(fixture.model.requests.length, 0);
});

Deno.test("conductDebate() emits no result if it is canceled right before the result", async () => {
  const fixture = new DebateFixture();
  const emit: typeof fixture.ports.emit = (event) => {
    fixture.events.push(event);
    if (event.type === "moderator_decision") fixture.cancel.abort();
  };
  const outcome = await conductDebate(fixture.setup, { ...fixture.ports, emit });
  assert.deepEqual([outcome.status, outcome.finalText, outcome.decision?.status], [
    "cancelled",
    "",
    "final_diagnosis",
  ]);
  assert.equal(fixture.of("final_result").length, 0);
});

Deno.test("conductDebate() keeps partly streamed text and marks it as partial", async () => {
  const fixture = new DebateFixture({ skeptic_agent: [stalled] });
  let deltas = 0;
  const outcome = await fixture.runUntil("hypothesis_update", async () => {
    while (deltas === 0) {
      deltas = fixture.of("agent_delta").filter(({ agent_node }) => agent_node === "skeptic_agent").length;
      await Promise.resolve();
    }
    fixture.cancel.abort();
  });
  assert.equal(outcome.status, "cancelled");
  assert.deepEqual(fixture.events.at(-1), {
    type: "agent_completed",
    node: "skeptic_agent",
    role: "Skeptical Reviewer",
    content: "half a sen",
    partial: true,
  });
});

Deno.test("conductDebate() keeps the tokens of cancelled and failed runs", async () => {
  const cancelled = new DebateFixture({
    diagnostic_agent: [{ text: "x", usage: usage(10) }],
    skeptic_agent: [stalled],
  });
  const stop = await cancelled.runUntil("hypothesis_update", () => cancelled.cancel.abort());
  assert.deepEqual([stop.status, stop.usage.total], ["cancelled", usage(10)]);

  const failed = new DebateFixture({
    diagnostic_agent: [{ text: "x", usage: usage(10) }],
    skeptic_agent: [new ModelError("server", "broke off", { usage: usage(3) })],
  });
  const end = await failed.run();
  assert.deepEqual([end.status, end.usage], ["error", {
    by_node: { diagnostic_agent: usage(10), skeptic_agent: usage(3) },
    total: usage(13),
  }]);
});

Deno.test("conductDebate() counts the tokens of a moderator's failed first answer", async () => {
  const fixture = new DebateFixture({
    moderator_agent: [{ text: "?", usage: usage(5) }, { text: CLOSING, usage: usage(7) }],
  });
  assert.deepEqual((await fixture.run()).usage.by_node.moderator_agent, usage(12));
});

Deno.test("conductDebate() reports once per agent that its effort is ignored", async () => {
  const fixture = await new DebateFixture(
    { diagnostic_agent: [{ text: "x", effortIgnored: true }], moderator_agent: [CONTINUE, CLOSING] },
    { efforts: { diagnostic: "high", skeptic: "none", moderator: "low" } },
  ).ran();
  assert.deepEqual(fixture.of("reasoning_effort_ignored"), [{
    type: "reasoning_effort_ignored",
    agent_node: "diagnostic_agent",
    agent_role: "Primary Diagnosis",
    model: "replay/script",
    requested_effort: "high",
  }]);
  const efforts = fixture.model.requests.map(({ purpose, reasoningEffort }) => [purpose, reasoningEffort]);
  assert.deepEqual(efforts.slice(0, 4), [
    ["diagnostic_agent", "high"],
    ["skeptic_agent", undefined],
    ["diagnostic_rebuttal_agent", "high"],
    ["moderator_agent", "low"],
  ]);
});

Deno.test("conductDebate() counts invalid token numbers as 0", async () => {
  const odd = { input_tokens: NaN, output_tokens: -5, total_tokens: 1.5 };
  const noTotal = { input_tokens: 2, output_tokens: 3, total_tokens: 0 };
  const fixture = new DebateFixture({
    diagnostic_agent: [{ text: "x", usage: odd }],
    skeptic_agent: [{ text: "x", usage: noTotal }],
    diagnostic_rebuttal_agent: [{ text: "x", usage: odd }],
    moderator_agent: [{ text: JSON.stringify(sampleDecision({ status: "propose_fix" })), usage: odd }],
  });
  const { usage: totals } = await fixture.run();
  assert.deepEqual(totals.total, { input_tokens: 2, output_tokens: 3, total_tokens: 5 });
});

Deno.test("conductDebate() estimates the tokens of a provider without usage, and marks them as estimated", async () => {
  const counted = { input_tokens: 100, output_tokens: 10, total_tokens: 110 };
  const toolCalls = [call("http_get", { url: "a".repeat(4000) })];
  const fixture = new DebateFixture(
    {
      diagnostic_agent: [{ text: "", toolCalls }, "b".repeat(400)],
      skeptic_agent: [{ text: "x", usage: counted }],
    },
    {},
    { tools: [new FixedTool()] },
  );
  const { usage: { by_node, total } } = await fixture.run();
  assert.deepEqual(by_node.skeptic_agent, counted);
  const { input_tokens = 0, output_tokens = 0, estimated } = by_node.diagnostic_agent ?? {};
  // The call is counted once as output, and once as input of the next request.
  assert.ok(output_tokens >= 1100 && output_tokens < 1110, `${output_tokens} tokens of output`);
  assert.ok(input_tokens > 1000 && input_tokens < 10_000, `${input_tokens} tokens of input`);
  assert.deepEqual([estimated, total.estimated], [true, true]);
});
