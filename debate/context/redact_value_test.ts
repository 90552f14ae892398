import assert from "node:assert/strict";
import { createContextRedactor, redactValue } from "./redact_context.ts";

const redactor = createContextRedactor(["correct-horse"]);
const redact = (text: string) => redactor(text).text;

Deno.test.each([
  { name: "a text", value: "it is correct-horse", masked: "it is [REDACTED]" },
  { name: "texts in lists", value: [["correct-horse", 7, null]], masked: [["[REDACTED]", 7, null]] },
  { name: "names", value: { "correct-horse": 1 }, masked: { "[REDACTED]": 1 } },
  {
    name: "what stands under a telling name",
    value: { password: "xyz1" },
    masked: { password: "[REDACTED]" },
  },
  {
    name: "an assignment in a text",
    value: { args: ["PASSWORD=hunter22x"] },
    masked: { args: ["PASSWORD=[REDACTED]"] },
  },
  {
    name: "nothing where there is none",
    value: { a: "b", c: [true, 1.5] },
    masked: { a: "b", c: [true, 1.5] },
  },
])("redactValue() masks $name", ({ value, masked }) => {
  assert.deepEqual(redactValue(value, redact), masked);
});
