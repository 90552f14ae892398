import assert from "node:assert/strict";
import { AppError } from "@gateway/shared/errors";
import { extractHypotheses, parseReview } from "../engine/graph/review_marks.ts";
import { parseEarlyOut } from "../engine/graph/decision.ts";
import { collectTemplates, type CustomFile, listTemplates, selectTemplate } from "./templates.ts";

function file(id: string, body = "diagnostic_system: d\nskeptic_system: s\nmoderator_system: m"): CustomFile {
  const [name, language] = id.split(".");
  const path = `/prompts/${id}.yaml`;
  return { name: `${id}.yaml`, path, content: { text: `name: ${name}\nlanguage: ${language}\n${body}` } };
}

const BUILT_IN = collectTemplates([]);

Deno.test("five templates ship, in English and Spanish", () => {
  assert.deepEqual(
    BUILT_IN.templates.map(({ name, language }) => `${name}.${language}`),
    ["data", "default", "errors", "performance", "security"].flatMap((name) => [`${name}.en`, `${name}.es`]),
  );
  assert.deepEqual(BUILT_IN.problems, []);
});

for (const template of BUILT_IN.templates) {
  const id = `${template.name}.${template.language}`;

  Deno.test(`${id} shows a hypothesis in the form that is read`, () => {
    const [found, ...others] = extractHypotheses(template.diagnosticSystem);
    assert.deepEqual(others, []);
    assert.equal(found?.id, "H-1");
    assert.equal(found?.probability, 0.5);
    assert.notEqual(found?.text, "");
    assert.equal(found?.evidence.length, 1);
  });

  Deno.test(`${id} shows the three lines of an early end in the form that is read`, () => {
    const { recommended, confidence, rationale } = parseEarlyOut(template.diagnosticSystem);
    assert.deepEqual({ recommended, confidence }, { recommended: true, confidence: 0.95 });
    assert.notEqual(rationale, "");
  });

  Deno.test(`${id} shows the skeptic's verdict in the form that is read, and all three words`, () => {
    const [mark] = parseReview(template.skepticSystem).filter(({ verdict }) => verdict !== undefined);
    assert.deepEqual([mark?.key, mark?.verdict, mark?.probability], ["1", "needs_evidence", 0.4]);
    for (const word of ["accepted", "rejected", "needs_evidence"]) {
      assert.ok(template.skepticSystem.includes(word));
    }
  });

  Deno.test(`${id} tells the moderator the scale of confidence and to answer in JSON`, () => {
    for (const word of ["0.3", "0.6", "0.8", "JSON", "needs_more_data", "structured_uncertainty"]) {
      assert.ok(template.moderatorSystem.includes(word), word);
    }
  });
}

Deno.test("a custom template replaces the one of the same name and language, and no other", () => {
  const set = collectTemplates([file("errors.en")]);
  assert.equal(set.templates.length, BUILT_IN.templates.length);
  assert.equal(selectTemplate(set, "errors", "en").source, "custom");
  assert.equal(selectTemplate(set, "errors", "es").source, "builtin");
});

Deno.test("a custom template adds a name", () => {
  assert.deepEqual(
    listTemplates(
      collectTemplates([
        file(
          "network.de",
          "version: 7\ndescription: Netze\ndiagnostic_system: d\nskeptic_system: s\nmoderator_system: m",
        ),
      ]),
    ).find(
      ({ name }) => name === "network",
    ),
    { name: "network", language: "de", version: 7, description: "Netze", source: "custom" },
  );
});

Deno.test.each([
  { name: "errors", language: "es", gives: "errors.es" },
  { name: "network", language: "es", gives: "network.en" },
  { name: "errors", language: "fr", gives: "errors.en" },
  { name: "unheard", language: "es", gives: "default.es" },
  { name: "unheard", language: "fr", gives: "default.en" },
])("selectTemplate() gives $gives for $name in $language", ({ name, language, gives }) => {
  const found = selectTemplate(collectTemplates([file("network.en")]), name, language);
  assert.equal(`${found.name}.${found.language}`, gives);
});

Deno.test("selectTemplate() refuses what a broken file was to replace, and nothing else", () => {
  const set = collectTemplates([file("errors.en", "diagnostic_system: d")]);
  assert.throws(
    () => selectTemplate(set, "errors", "en"),
    (error) =>
      error instanceof AppError && error.code === "invalid_config" && /skeptic_system/.test(error.message),
  );
  assert.equal(selectTemplate(set, "errors", "es").name, "errors");
  assert.equal(selectTemplate(set, "default", "en").name, "default");
});

Deno.test("collectTemplates() reports files that cannot be read, and continues", () => {
  const unreadable: CustomFile = {
    name: "a.en.yaml",
    path: "/prompts/a.en.yaml",
    content: { unreadable: "it is not UTF-8 text" },
  };
  const set = collectTemplates([unreadable, file("Bad Name.en"), file("network.en")]);
  assert.deepEqual(set.problems.map(({ id, message }) => [id?.name, message]), [
    ["a", 'Cannot load prompt template "/prompts/a.en.yaml": it is not UTF-8 text'],
    [
      undefined,
      'Cannot load prompt template "/prompts/Bad Name.en.yaml": the file\'s name is not <name>.<language>.yaml, in lower case, as in network.en.yaml',
    ],
  ]);
  assert.equal(selectTemplate(set, "network", "en").source, "custom");
});
