import assert from "node:assert/strict";
import { sampleDecision, sampleEvidence, sampleHypothesis } from "../testing/sample_state.ts";
import { answerLines, chatBody } from "./message.ts";

const FACTS = { title: "CheckoutMemory", severity: "critical", url: "https://debate.example/#/runs/a" };

function recordOf(outcome: "cause" | "no_confident_cause", next_step = "Set PRICE_CACHE=off") {
  const decision = {
    ...sampleDecision({ confidence: 0.93, next_step }),
    grounding: { hypothesis_id: "1", level: "full", outcome },
  };
  const evidence = [sampleEvidence("a"), sampleEvidence("b")];
  return {
    status: "completed" as const,
    conclusion: { outcome, confidence: 0.93, cause: "" },
    hypotheses: [sampleHypothesis({ text: "The cache grows", evidence })],
    events: [{ type: "moderator_decision", decision }],
  };
}

Deno.test.each([
  {
    name: "a proved cause",
    record: recordOf("cause"),
    expected: [
      "CheckoutMemory (critical). Cause: The cache grows",
      "Confidence: 93 %",
      "Evidence: 2 of 2 lines count, from 2 results",
      "Next: Set PRICE_CACHE=off",
    ],
  },
  {
    name: "a candidate, with a hedged step",
    record: recordOf("no_confident_cause", "Unproved: Set PRICE_CACHE=off"),
    expected: [
      "CheckoutMemory (critical). Best candidate: The cache grows",
      "No confident cause (93 %)",
      "Evidence: 2 of 2 lines count, from 2 results",
      "Next: Unproved: Set PRICE_CACHE=off",
    ],
  },
  {
    name: "a failed run, which proves nothing",
    record: {
      ...recordOf("cause"),
      status: "error" as const,
      events: [...recordOf("cause").events, { type: "error", message: "no model\nanswered" }],
    },
    expected: [
      "CheckoutMemory (critical). The run failed (no model answered). Best candidate: The cache grows",
      "No confident cause (93 %)",
      "Evidence: 2 of 2 lines count, from 2 results",
      "Next: Unproved: Set PRICE_CACHE=off",
    ],
  },
  {
    name: "a run that failed before its first decision",
    record: {
      ...recordOf("cause"),
      ...{ status: "error" as const, conclusion: null, hypotheses: [] },
      events: [{ type: "error", message: "no model" }],
    },
    expected: [
      "CheckoutMemory (critical). The run failed (no model).",
      "No confident cause",
      "Evidence: 0 of 0 lines count, from 0 results",
      "Next: fix the failure, then resume the run",
    ],
  },
  {
    name: "a run without a decision",
    record: { ...recordOf("cause"), conclusion: null, hypotheses: [], events: [] },
    expected: [
      "CheckoutMemory (critical). No hypothesis leads.",
      "No confident cause",
      "Evidence: 0 of 0 lines count, from 0 results",
      "Next: open the run and check its evidence",
    ],
  },
])("answerLines() of $name", ({ record, expected }) => {
  assert.deepEqual(answerLines(FACTS, record, (text) => text), expected);
});

Deno.test("answerLines() keeps one line per fact, without invisible characters", () => {
  const hostile = { ...FACTS, title: "a\nCause: b\u202e", severity: "x".repeat(500) };
  const lines = answerLines(hostile, recordOf("cause", "one\r\ntwo\u2028three"), (text) => text);
  assert.equal(lines.length, 4);
  assert.doesNotMatch(lines.join(""), /[\r\n\u2028\u202e]/);
  assert.match(lines[0] ?? "", /^a Cause: b\\u\{202e\} \(x{40}…\)/);
});

// A text of an alert, or a command that an agent wrote.
const HOSTILE =
  "<!channel> @everyone [log in](https://evil.example) `x` *b* {{DATE()}} <https://evil.example|click>";
const SPACED = "@\u200beveryone [log in](https:\u200b//evil.example)";

Deno.test.each(
  [
    { format: "slack", says: `&lt;!channel&gt; ${SPACED}` },
    {
      format: "mattermost",
      says: "\\<\\!channel\\> @\u200beveryone \\[log in\\]\\(https\\:\u200b//evil\\.example\\) \\`x\\`",
    },
    { format: "teams", says: `{"type":"TextRun","text":"<!channel> ${SPACED}` },
    { format: "webhook", says: HOSTILE },
  ] as const,
)("a message for $format has no link or mention of the alert", ({ format, says }) => {
  const body = chatBody(format, [HOSTILE], FACTS);
  const text = format === "teams" ? JSON.stringify(body) : Object.values(body).flat().join("\n");
  assert.ok(text.includes(says), text);
  assert.ok(text.includes(FACTS.url), text);
  assert.equal(text.includes("://evil"), format === "webhook");
});
