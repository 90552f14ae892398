import { FakeClock } from "@gateway/shared/testing";
import assert from "node:assert/strict";
import { fetchModels, modelCatalogue, type ModelSources } from "./providers.ts";
import { ModelError } from "../engine/ports.ts";
import { takesEffort, takesTemperature } from "./families.ts";
import { splitModelId } from "../settings/model_providers.ts";
import { estimateCost, findPrice, priceTable } from "./prices.ts";

/** A source that numbers its answers and can be made to fail. */
function countingSource(provider: keyof ModelSources, problem?: () => Error | undefined): ModelSources {
  let count = 0;
  const list = () => {
    const error = problem?.();
    if (error !== undefined) return Promise.reject(error);
    return Promise.resolve([{ id: `${provider}/m${++count}`, name: "M", provider }]);
  };
  return { [provider]: list };
}

const idsOf = async (catalogue: ReturnType<typeof modelCatalogue>) =>
  (await catalogue.list()).models.map(({ id }) => id);

Deno.test("modelCatalogue() caches the models for five minutes, unless a refresh is requested", async () => {
  const clock = new FakeClock();
  const catalogue = modelCatalogue({ ...countingSource("hub"), ...countingSource("replay") }, clock);
  assert.deepEqual(await idsOf(catalogue), ["hub/m1", "replay/m1"]);
  await clock.advance(299_999);
  assert.deepEqual(await idsOf(catalogue), ["hub/m1", "replay/m1"]);
  await catalogue.refresh();
  assert.deepEqual(await idsOf(catalogue), ["hub/m2", "replay/m2"]);
  await clock.advance(300_000);
  assert.deepEqual(await idsOf(catalogue), ["hub/m3", "replay/m3"]);
});

Deno.test("modelCatalogue() shares one query between concurrent callers", async () => {
  const catalogue = modelCatalogue(countingSource("hub"), new FakeClock());
  await Promise.all([catalogue.list(), catalogue.refresh(), catalogue.list()]);
  assert.deepEqual(await idsOf(catalogue), ["hub/m1"]);
});

Deno.test("modelCatalogue() forgets the models, also those of a running query", async () => {
  let isLoggedIn = false;
  const [name, gate] = ["M", Promise.withResolvers<void>()];
  const catalogue = modelCatalogue({
    async assist() {
      const models = isLoggedIn ? [{ id: "assist/m", name, provider: "assist" }] : [];
      await gate.promise;
      return models;
    },
  }, new FakeClock());
  const early = idsOf(catalogue);
  isLoggedIn = true;
  catalogue.forget();
  gate.resolve();
  assert.deepEqual(await early, []);
  assert.deepEqual(await idsOf(catalogue), ["assist/m"]);
});

Deno.test("modelCatalogue() reports a failed provider, lists the others and retries sooner", async () => {
  const clock = new FakeClock();
  let problem: Error | undefined = new ModelError("server", "the provider gives no list");
  const catalogue = modelCatalogue(
    { ...countingSource("hub", () => problem), ...countingSource("assist") },
    clock,
  );
  assert.deepEqual(await catalogue.list(), {
    models: [{ id: "assist/m1", name: "M", provider: "assist" }],
    problems: [{ provider: "hub", message: "the provider gives no list" }],
  });
  problem = new Error("secret internals");
  await clock.advance(30_000);
  const { problems } = await catalogue.list();
  assert.deepEqual(problems, [{ provider: "hub", message: "its models cannot be listed" }]);
  problem = undefined;
  await clock.advance(30_000);
  assert.deepEqual((await catalogue.list()).problems, []);
});

function ask(answers: Record<string, () => Response>, urls = ["https://m.test/models"]) {
  const asked: string[] = [];
  const list = fetchModels({
    provider: "assist",
    urls,
    headers: { authorization: "Bearer t" },
    fetch: (input) => {
      asked.push(String(input));
      return Promise.resolve(answers[String(input)]?.() ?? new Response(null, { status: 404 }));
    },
    clock: new FakeClock(),
  });
  return { list, asked };
}

Deno.test.each([
  { name: "data", wrap: (list: unknown) => ({ data: list }) },
  { name: "models", wrap: (list: unknown) => ({ models: list }) },
  { name: "a bare list", wrap: (list: unknown) => list },
])("fetchModels() reads $name and omits models that cannot chat", async ({ wrap }) => {
  const entries = [
    { id: "gpt-4o", display_name: "GPT-4o", name: "x" },
    { id: "b", name: "B" },
    { id: "c" },
    { id: "text-embedding-3" },
    { id: "trajectory-compaction-1" },
    { id: "with space" },
    { name: "no id" },
    null,
    7,
  ];
  const { list } = ask({ "https://m.test/models": () => Response.json(wrap(entries)) });
  assert.deepEqual(await list, [
    { id: "assist/gpt-4o", name: "GPT-4o", provider: "assist" },
    { id: "assist/b", name: "B", provider: "assist" },
    { id: "assist/c", name: "c", provider: "assist" },
  ]);
});

Deno.test("fetchModels() tries the next URL after status 404", async () => {
  const urls = ["https://m.test/inference/models", "https://m.test/v1/models"];
  const { list, asked } = ask(
    { "https://m.test/v1/models": () => Response.json({ data: [{ id: "a" }] }) },
    urls,
  );
  assert.equal((await list)[0]?.id, "assist/a");
  assert.deepEqual(asked, urls);
});

Deno.test.each([
  { name: "a missing page", answer: () => new Response(null, { status: 404 }) },
  { name: "a rejection", answer: () => Response.json({ data: [] }, { status: 401 }) },
  { name: "a page", answer: () => new Response("<html>") },
  { name: "another object", answer: () => Response.json({ data: {} }) },
])("fetchModels() fails for $name", async ({ answer }) => {
  await assert.rejects(ask({ "https://m.test/models": answer }).list, ModelError);
});

Deno.test.each([
  { name: "o1", effort: true },
  { name: "openai/o3-mini", effort: true },
  { name: "o4-mini-2025-04-16", effort: true },
  { name: "gpt-5", effort: true },
  { name: "gpt-5.1-codex", effort: true },
  { name: "GPT-5-mini", effort: true },
  { name: "claude-sonnet-4.6", effort: true },
  { name: "claude-opus-4-20250514", effort: true },
  { name: "claude-3.7-sonnet", effort: true },
  { name: "claude-3-7-sonnet-20250219", effort: true },
  { name: "anthropic/claude-opus-12", effort: true },
  { name: "gpt-4o", effort: false },
  { name: "gpt-4o-mini", effort: false },
  { name: "gpt-50", effort: false },
  { name: "o2", effort: false },
  { name: "claude-3.5-sonnet", effort: false },
  { name: "claude-3-opus-20240229", effort: false },
  { name: "claude-haiku-4.5", effort: false },
  { name: "claude-sonnet", effort: false },
  { name: "sonnet-4", effort: false },
  { name: "", effort: false },
])("takesEffort() $name: $effort", ({ name, effort }) => {
  assert.equal(takesEffort(name), effort);
});

Deno.test.each([
  { name: "gpt-4o", withEffort: false, temperature: true },
  { name: "o3-mini", withEffort: false, temperature: false },
  { name: "gpt-5-mini", withEffort: false, temperature: false },
  { name: "claude-sonnet-4.6", withEffort: false, temperature: true },
  { name: "claude-sonnet-4.6", withEffort: true, temperature: false },
  { name: "claude-haiku-4.5", withEffort: true, temperature: true },
])("takesTemperature() $name with effort $withEffort: $temperature", ({ name, withEffort, temperature }) => {
  assert.equal(takesTemperature(name, withEffort), temperature);
});

Deno.test("splitModelId() splits provider and name", () => {
  assert.deepEqual(splitModelId("hub/openai/gpt-4o", []), { provider: "hub", name: "openai/gpt-4o" });
  assert.deepEqual(splitModelId("my-azure/m", ["my-azure"]), { provider: "my-azure", name: "m" });
});

Deno.test.each([
  { id: "" },
  { id: "gpt-4o" },
  { id: "hub/" },
  { id: "Hub/x" },
  { id: "other/x" },
  { id: "hub/a b" },
  { id: "hub/a\n" },
  { id: `hub/${"x".repeat(201)}` },
])("splitModelId() rejects $id", ({ id }) => {
  assert.equal(splitModelId(id, ["mine"]), undefined);
});

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
])("findPrice() returns $input per million tokens for $id", ({ id, input }) => {
  assert.equal(findPrice(id, prices)?.input, input);
});

Deno.test.each([
  { id: "replay/memory_leak" },
  { id: "hub/proto1" },
  { id: "hub/yolo3" },
  { id: "hub/gpt-4" },
  { id: "hub/" },
])("findPrice() returns no price for $id", ({ id }) => {
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

Deno.test("estimateCost() adds the known prices by node", () => {
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

Deno.test("estimateCost() returns no total if no price is known", () => {
  const totals = { by_node: { skeptic_agent: usage(1, 1) }, total: usage(1, 1) };
  const { total_usd, has_prices } = estimateCost(totals, models, prices);
  assert.deepEqual([total_usd, has_prices], [null, false]);
  assert.equal(estimateCost({ by_node: {}, total: usage(0, 0) }, models, prices).total_usd, null);
});
