import assert from "node:assert/strict";
import { estimateCost, findPrice, priceTable } from "./prices.ts";

const prices = priceTable({
  "Local/My_Model.v2": { input: 1, output: 2 },
  "gpt-4o": { input: 3, output: 4 },
});

Deno.test.each([
  { id: "hub/openai/gpt-4o", input: 3 },
  { id: "assist/gpt-4o-2024-11-20", input: 3 },
  { id: "assist/gpt-4o-mini", input: 0.15 },
  { id: "assist/claude-sonnet-4.6", input: 3 },
  { id: "assist/claude-opus-4.6", input: 5 },
  { id: "hub/anthropic.claude-3-5-sonnet-20241022", input: 3 },
  { id: "hub/MY-MODEL-V2", input: 1 },
  { id: "assist/o1-preview", input: 15 },
])("findPrice() of $id is $input a million", ({ id, input }) => {
  assert.equal(findPrice(id, prices)?.input, input);
});

Deno.test.each([
  { id: "replay/memory_leak" },
  { id: "hub/proto1" },
  { id: "hub/yolo3" },
  { id: "hub/gpt-4" },
  { id: "hub/" },
])("findPrice() knows none of $id", ({ id }) => {
  assert.equal(findPrice(id, prices), undefined);
});

const usage = (input_tokens: number, output_tokens: number) => ({
  input_tokens,
  output_tokens,
  total_tokens: input_tokens + output_tokens,
});

const models = {
  diagnostic: "hub/gpt-4o",
  skeptic: "replay/x",
  moderator: "hub/my_model.v2",
  summary: "hub/my_model.v2",
};

Deno.test("estimateCost() adds what has a price, by node", () => {
  const by_node = {
    diagnostic_agent: usage(1000, 100),
    diagnostic_rebuttal_agent: usage(1, 0),
    skeptic_agent: usage(500, 50),
    summarize_history: usage(1_000_000, 1),
  };
  assert.deepEqual(estimateCost({ by_node, total: usage(0, 0) }, models, prices), {
    by_node: {
      diagnostic_agent: { model: "hub/gpt-4o", ...usage(1000, 100), estimated_usd: 0.0034 },
      skeptic_agent: { model: "replay/x", ...usage(500, 50), estimated_usd: null },
      diagnostic_rebuttal_agent: { model: "hub/gpt-4o", ...usage(1, 0), estimated_usd: 0.000003 },
      summarize_history: { model: "hub/my_model.v2", ...usage(1_000_000, 1), estimated_usd: 1.000002 },
    },
    total_usd: 1.003405,
    has_prices: true,
  });
});

Deno.test("estimateCost() has no total where nothing has a price", () => {
  const totals = { by_node: { skeptic_agent: usage(1, 1) }, total: usage(1, 1) };
  const { total_usd, has_prices } = estimateCost(totals, models, prices);
  assert.deepEqual([total_usd, has_prices], [null, false]);
  assert.equal(estimateCost({ by_node: {}, total: usage(0, 0) }, models, prices).total_usd, null);
});
