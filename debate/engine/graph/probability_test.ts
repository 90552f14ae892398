import assert from "node:assert/strict";
import { findProbability, parseShare } from "./probability.ts";

Deno.test.each([
  { text: "0.6", value: 0.6 },
  { text: ".75", value: 0.75 },
  { text: "1.", value: 1 },
  { text: "0,6", value: 0.6 },
  { text: "60%", value: 0.6 },
  { text: " 60 % ", value: 0.6 },
  { text: "3.0", value: 3 },
  { text: "-0.5", value: -0.5 },
  { text: "", value: undefined },
  { text: "high", value: undefined },
  { text: "1e3", value: undefined },
  { text: "Infinity", value: undefined },
])("parseShare() reads $text", ({ text, value }) => {
  assert.equal(parseShare(text), value);
});

Deno.test.each([
  { text: "a [P=0.25] b [P=0.9]", value: 0.25 },
  { text: "[ P = 40% ]", value: 0.4 },
  { text: "[p: .1]", value: 0.1 },
  { text: "[P=3.0]", value: 1 },
  { text: "[P=-2]", value: 0 },
  { text: "[P=likely]", value: undefined },
  { text: "[P=60]", value: 0.6 },
  { text: "P=0.5", value: 0.5 },
  { text: "P = 0.6", value: 0.6 },
  { text: " rejected, **P** = 0,05", value: 0.05 },
  { text: "P(H1) ≈ 5%", value: 0.05 },
  { text: ": the cause (probability: 60%)", value: 0.6 },
  { text: "la causa, probabilidad: 0,6", value: 0.6 },
  { text: "(60% likely)", value: 0.6 },
  { text: " 5%", value: 0.05 },
  { text: " (5%): the cause", value: 0.05 },
  { text: " — 60 %", value: 0.6 },
  { text: " [0.6]", value: 0.6 },
  { text: "the cause\n- **Probability:** 60%\nmore", value: 0.6 },
  { text: ": disk at 95%", value: undefined },
  { text: ": 95% of requests fail", value: undefined },
  { text: "the cause\nsince p = 0.03 in the correlation", value: undefined },
  { text: "GET /?p=1", value: undefined },
  { text: "P = 5", value: undefined },
  { text: "p99 = 0.6", value: undefined },
])("findProbability() in $text", ({ text, value }) => {
  assert.equal(findProbability(text), value);
});
