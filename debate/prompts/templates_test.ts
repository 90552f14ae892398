import assert from "node:assert/strict";
import { AppError } from "@gateway/shared/errors";
import { extractHypotheses, parseReview } from "../engine/graph/review_marks.ts";
import { parseEarlyOut } from "../engine/graph/decision.ts";
import {
  collectTemplates,
  listTemplates,
  parseFileName,
  parseTemplate,
  selectTemplate,
  type TemplateFile,
} from "./templates.ts";

function file(
  id: string,
  body = "diagnostic_system: d\nskeptic_system: s\nmoderator_system: m",
): TemplateFile {
  const [name, language] = id.split(".");
  return { name: `${id}.yaml`, text: `name: ${name}\nlanguage: ${language}\n${body}` };
}

const BUILT_IN = collectTemplates([]);

Deno.test("five templates are built in, in English and Spanish", () => {
  assert.deepEqual(
    BUILT_IN.templates.map(({ name, language }) => `${name}.${language}`),
    ["data", "default", "errors", "performance", "security"].flatMap((name) => [`${name}.en`, `${name}.es`]),
  );
  assert.deepEqual(BUILT_IN.problems, []);
});

for (const template of BUILT_IN.templates) {
  const id = `${template.name}.${template.language}`;

  Deno.test(`${id} contains a hypothesis in the form that the parser reads`, () => {
    const [found, ...others] = extractHypotheses(template.diagnosticSystem);
    assert.deepEqual(others, []);
    assert.equal(found?.id, "H-1");
    assert.equal(found?.probability, 0.5);
    assert.notEqual(found?.text, "");
    assert.equal(found?.evidence.length, 1);
  });

  Deno.test(`${id} contains the three lines of an early end in the form that the parser reads`, () => {
    const { recommended, confidence, rationale } = parseEarlyOut(template.diagnosticSystem);
    assert.deepEqual({ recommended, confidence }, { recommended: true, confidence: 0.95 });
    assert.notEqual(rationale, "");
  });

  Deno.test(`${id} contains the skeptic's verdict in the form that the parser reads, with all words`, () => {
    const [mark] = parseReview(template.skepticSystem).filter(({ verdict }) => verdict !== undefined);
    assert.deepEqual([mark?.key, mark?.verdict, mark?.probability], ["1", "needs_evidence", 0.4]);
    for (const word of ["accepted", "rejected", "needs_evidence"]) {
      assert.ok(template.skepticSystem.includes(word));
    }
  });

  Deno.test(`${id} explains the confidence scale to the moderator and requires JSON`, () => {
    for (const word of ["0.3", "0.6", "0.8", "JSON", "needs_more_data", "structured_uncertainty"]) {
      assert.ok(template.moderatorSystem.includes(word), word);
    }
  });
}

Deno.test("a custom template replaces only the template of the same name and language", () => {
  const set = collectTemplates([file("errors.en")]);
  assert.equal(set.templates.length, BUILT_IN.templates.length);
  assert.equal(selectTemplate(set, "errors", "en").source, "custom");
  assert.equal(selectTemplate(set, "errors", "es").source, "builtin");
});

Deno.test("a custom template with a new name is added", () => {
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
])("selectTemplate() returns $gives for $name in $language", ({ name, language, gives }) => {
  const found = selectTemplate(collectTemplates([file("network.en")]), name, language);
  assert.equal(`${found.name}.${found.language}`, gives);
});

Deno.test("selectTemplate() rejects only the template that a broken file replaces", () => {
  const set = collectTemplates([file("errors.en", "diagnostic_system: d")]);
  assert.throws(
    () => selectTemplate(set, "errors", "en"),
    (error) =>
      error instanceof AppError && error.code === "invalid_request" && /skeptic_system/.test(error.message),
  );
  assert.equal(selectTemplate(set, "errors", "es").name, "errors");
  assert.equal(selectTemplate(set, "default", "en").name, "default");
});

Deno.test("collectTemplates() reports unreadable files and continues", () => {
  const unreadable: TemplateFile = {
    name: "a.en.yaml",
    unreadable: "it is not UTF-8 text",
  };
  const set = collectTemplates([unreadable, file("Bad Name.en"), file("network.en")]);
  assert.deepEqual(set.problems.map(({ id, message }) => [id?.name, message]), [
    ["a", 'Cannot load prompt template "a.en.yaml": it is not UTF-8 text'],
    [
      undefined,
      'Cannot load prompt template "Bad Name.en.yaml": the file name must be <name>.<language>.yaml, in lower case, as in network.en.yaml',
    ],
  ]);
  assert.equal(selectTemplate(set, "network", "en").source, "custom");
});

const WHOLE = [
  "name: network",
  "language: en",
  "version: 3",
  "description: Networks",
  "diagnostic_system: |",
  "  You diagnose.",
  "skeptic_system: You doubt.",
  "moderator_system: You decide.",
];

function parse(lines: readonly string[], name = "network.en.yaml") {
  return parseTemplate({ name, text: lines.join("\n"), source: "custom" });
}

function without(key: string): readonly string[] {
  return WHOLE.filter((line) => !line.startsWith(`${key}:`));
}

Deno.test("parseTemplate() reads every key", () => {
  assert.deepEqual(parse(WHOLE), {
    name: "network",
    language: "en",
    version: 3,
    description: "Networks",
    source: "custom",
    diagnosticSystem: "You diagnose.\n",
    skepticSystem: "You doubt.",
    moderatorSystem: "You decide.",
  });
});

Deno.test("parseTemplate() defaults to version 1 and no description", () => {
  const { version, description } = parse(WHOLE.filter((line) => !/^(?:version|description)/.test(line)));
  assert.deepEqual({ version, description }, { version: 1, description: "" });
});

Deno.test.each([
  {
    name: "a missing key",
    lines: without("skeptic_system"),
    reason: /"network\.en\.yaml": key "skeptic_system" is missing$/,
  },
  {
    name: "an empty text",
    lines: [...without("skeptic_system"), 'skeptic_system: "  "'],
    reason: /line 8: skeptic_system must not be empty$/,
  },
  {
    name: "a key without a value",
    lines: [...without("moderator_system"), "moderator_system:"],
    reason: /line 8: moderator_system must be a text$/,
  },
  { name: "an unknown key", lines: [...WHOLE, "skeptik: x"], reason: /line 9: unknown key "skeptik"$/ },
  {
    name: "a version that is not a number",
    lines: [...without("version"), "version: two"],
    reason: /line 8: version must be a whole number$/,
  },
  {
    name: "version 0",
    lines: [...without("version"), "version: 0"],
    reason: /line 8: version must be 1 or more$/,
  },
  {
    name: "text that is not YAML",
    lines: [...WHOLE.slice(0, 6), "skeptic_system: [a"],
    reason: /line \d+: /,
  },
  { name: "a key given twice", lines: [...WHOLE, "name: other"], reason: /line 9: Map keys must be unique$/ },
  { name: "a list", lines: ["- a"], reason: /line 1: expected keys with texts/ },
  { name: "nothing", lines: [""], reason: /line 1: expected keys with texts/ },
  {
    name: "an alias",
    lines: [
      ...without("skeptic_system").map((line) => line.replace("You decide", "&x You decide")),
      "skeptic_system: *x",
    ],
    reason: /aliases/,
  },
  {
    name: "two documents",
    lines: [...WHOLE, "---", "name: other"],
    reason: /line \d+: /,
  },
  {
    name: "a text over the length limit",
    lines: [...without("skeptic_system"), `skeptic_system: ${"a".repeat(40_001)}`],
    reason: /line 8: skeptic_system must have at most 40000 characters$/,
  },
])("parseTemplate() rejects $name, with line and reason", ({ lines, reason }) => {
  assert.throws(() => parse(lines), (error) => error instanceof AppError && reason.test(error.message));
});

Deno.test.each([
  { file: "network.es.yaml", reason: /line 2: language is "en", but the file name has "es"$/ },
  { file: "other.en.yaml", reason: /line 1: name is "network", but the file name has "other"$/ },
  { file: "network.yaml", reason: /the file name must be <name>\.<language>\.yaml/ },
  { file: "Network.en.yaml", reason: /the file name must be/ },
])("parseTemplate() rejects the content in a file $file", ({ file, reason }) => {
  assert.throws(() => parse(WHOLE, file), { message: reason });
});

Deno.test("parseTemplate() reports every problem of a file", () => {
  assert.throws(() => parse(["name: network", "language: en", "a: 1", "b: 2"]), {
    message: [
      'Cannot load prompt template "network.en.yaml": 5 problems',
      'key "diagnostic_system" is missing',
      'key "skeptic_system" is missing',
      'key "moderator_system" is missing',
      'line 3: unknown key "a"',
      'line 4: unknown key "b"',
    ].join("\n  "),
  });
});

Deno.test("parseTemplate() treats __proto__ like any other key", () => {
  assert.throws(() => parse([...WHOLE, "__proto__: {admin: true}"]), {
    message: /line 9: unknown key "__proto__"/,
  });
});

Deno.test.each([
  { file: "network.en.yaml", id: { name: "network", language: "en" } },
  { file: "my_net-2.pt-BR.yml", id: { name: "my_net-2", language: "pt-BR" } },
  { file: "..en.yaml", id: undefined },
  { file: "network.en.yaml.bak", id: undefined },
])("parseFileName() reads $file", ({ file, id }) => {
  assert.deepEqual(parseFileName(file), id);
});
