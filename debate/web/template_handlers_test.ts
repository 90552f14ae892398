import assert from "node:assert/strict";
import { problemOf, WebFixture } from "../testing/web_fixture.ts";

Deno.test("a template is given as a file whose preview is without problems", async () => {
  const web = await WebFixture.open();
  for (const id of ["default/en", "security/es"]) {
    const { file, text, source } = await (await web.get(`/api/prompts/${id}`)).json();
    assert.deepEqual([file, source], [`${id.replace("/", ".")}.yaml`, "builtin"]);
    const { problem, prompts } =
      await (await web.post("/api/prompts/preview", { file, text, topic: "it hangs" })).json();
    assert.equal(problem, null);
    const nodes = ["diagnostic_agent", "skeptic_agent", "diagnostic_rebuttal_agent", "moderator_agent"];
    assert.deepEqual(prompts.map(({ node }: { readonly node: string }) => node), nodes);
    assert.match(prompts[0].messages[1].content, /(?:TOPIC|TEMA):\nit hangs/);
  }
});

Deno.test.each([
  {
    name: "a key that is missing",
    file: "a.en.yaml",
    text: "name: a\nlanguage: en\n",
    says: /key "diagnostic_system" is missing/,
  },
  { name: "what is no YAML", file: "a.en.yaml", text: "a: [", says: /line 1/ },
  { name: "the name of its file", file: "../a.en.yaml", text: "name: a", says: /the file's name is not/ },
])("a preview says what is wrong with $name", async ({ file, text, says }) => {
  const web = await WebFixture.open();
  const { problem, prompts } = await (await web.post("/api/prompts/preview", { file, text })).json();
  assert.match(problem, says);
  assert.deepEqual(prompts, []);
});

Deno.test("there is no template of another name, and no preview without a text", async () => {
  const web = await WebFixture.open();
  assert.equal((await problemOf(await web.get("/api/prompts/default/fr"))).status, 404);
  assert.equal((await problemOf(await web.get("/api/prompts/__proto__/en"))).status, 404);
  assert.equal((await problemOf(await web.post("/api/prompts/preview", { file: "a.en.yaml" }))).status, 400);
});
