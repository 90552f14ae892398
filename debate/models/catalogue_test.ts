import { FakeClock } from "@gateway/shared/testing";
import assert from "node:assert/strict";
import { fetchModels, modelCatalogue, type ModelSources } from "./providers.ts";
import { ModelError } from "../engine/model.ts";

/** A source that numbers its answers, and fails when told. */
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

Deno.test("modelCatalogue() remembers for five minutes, and asks anew when told", async () => {
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

Deno.test("modelCatalogue() asks once for all who wait", async () => {
  const catalogue = modelCatalogue(countingSource("hub"), new FakeClock());
  await Promise.all([catalogue.list(), catalogue.refresh(), catalogue.list()]);
  assert.deepEqual(await idsOf(catalogue), ["hub/m1"]);
});

Deno.test("modelCatalogue() says which provider failed, keeps the others, and asks again sooner", async () => {
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
])("fetchModels() reads $name, and leaves out what is not for conversations", async ({ wrap }) => {
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

Deno.test("fetchModels() tries the next place where a list is not known", async () => {
  const urls = ["https://m.test/inference/models", "https://m.test/v1/models"];
  const { list, asked } = ask(
    { "https://m.test/v1/models": () => Response.json({ data: [{ id: "a" }] }) },
    urls,
  );
  assert.equal((await list)[0]?.id, "assist/a");
  assert.deepEqual(asked, urls);
});

Deno.test.each([
  { name: "no such page", answer: () => new Response(null, { status: 404 }) },
  { name: "a refusal", answer: () => Response.json({ data: [] }, { status: 401 }) },
  { name: "a page", answer: () => new Response("<html>") },
  { name: "another object", answer: () => Response.json({ data: {} }) },
])("fetchModels() fails for $name", async ({ answer }) => {
  await assert.rejects(ask({ "https://m.test/models": answer }).list, ModelError);
});
