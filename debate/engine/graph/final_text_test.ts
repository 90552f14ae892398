import assert from "node:assert/strict";
import { sampleDecision, sampleEvidence, sampleHypothesis } from "../../testing/sample_state.ts";
import { formatFinalText } from "./decision.ts";

Deno.test("formatFinalText() has every block in order", () => {
  const decision = sampleDecision({ status: "propose_fix", confidence: 0.9, evidence: ["a", "b"] });
  assert.equal(
    formatFinalText(decision, [sampleHypothesis({ state: "confirmed" })], "en"),
    [
      "Status: propose_fix",
      "Confidence: 0.90",
      "Risk: medium",
      "Leading hypothesis:\n1: the pool is exhausted",
      "Hypotheses under debate:\n- 1 [confirmed]: The connection pool is exhausted",
      "Evidence:\n- None.",
      "Evidence, as the moderator states it:\n- a\n- b",
      "Missing evidence:\n- None.",
      "Rejected hypotheses:\n- None.",
      "Next step:\nmeasure",
      "Recommended fix:\nNot recommended",
      "Validation:\n- None.",
      "Stop reason:\nNot specified",
    ].join("\n\n"),
  );
});

Deno.test("formatFinalText() says of the leading hypothesis which evidence counts, whatever the moderator states", () => {
  const decision = sampleDecision({ leading_hypothesis: "1: the pool", evidence: ["it is proven"] });
  const evidence = [sampleEvidence("c1"), sampleEvidence("c2", { status: "failed_call" })];
  const text = formatFinalText(decision, [sampleHypothesis({ evidence })], "en");
  const [counts, fails] = evidence.map((line) => `- ${line.text}`);
  assert.match(text, /\nEvidence, as the moderator states it:\n- it is proven\n/);
  assert.ok(
    text.includes(
      `\nEvidence:\n${counts} (counts)\n${fails} (does not count: the cited call failed or was not run)\n`,
    ),
    text,
  );
});

Deno.test("formatFinalText() speaks Spanish", () => {
  const text = formatFinalText(sampleDecision(), [], "es-MX");
  assert.match(text, /^Estado: continue\n\nConfianza: 0\.50/);
  assert.match(text, /Hipótesis en debate:\n- Ninguna\./);
});
