import assert from "node:assert/strict";
import { sampleDecision, sampleHypothesis } from "../testing/sample_state.ts";
import { formatFinalText } from "./final_text.ts";
import { labelsFor } from "./labels.ts";

Deno.test("formatFinalText() has every block in order", () => {
  const decision = sampleDecision({ status: "propose_fix", confidence: 0.9, evidence: ["a", "b"] });
  assert.equal(
    formatFinalText(decision, [sampleHypothesis({ state: "confirmed" })], labelsFor("en")),
    [
      "Status: propose_fix",
      "Confidence: 0.90",
      "Risk: medium",
      "Leading hypothesis:\n1: the pool is exhausted",
      "Hypotheses under debate:\n- 1 [confirmed]: The connection pool is exhausted",
      "Evidence:\n- a\n- b",
      "Missing evidence:\n- None.",
      "Rejected hypotheses:\n- None.",
      "Next step:\nmeasure",
      "Recommended fix:\nNot recommended",
      "Validation:\n- None.",
      "Stop reason:\nNot specified",
    ].join("\n\n"),
  );
});

Deno.test("formatFinalText() speaks Spanish", () => {
  const text = formatFinalText(sampleDecision(), [], labelsFor("es-MX"));
  assert.match(text, /^Estado: continue\n\nConfianza: 0\.50/);
  assert.match(text, /Hipótesis en debate:\n- Ninguna\./);
});
