import assert from "node:assert/strict";
import { AppError } from "@gateway/shared/errors";
import { parseFileName, parseTemplate } from "./parse_template.ts";

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
  return parseTemplate({ name, path: `/prompts/${name}`, text: lines.join("\n"), source: "custom" });
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

Deno.test("parseTemplate() knows version 1 and no description by default", () => {
  const { version, description } = parse(WHOLE.filter((line) => !/^(?:version|description)/.test(line)));
  assert.deepEqual({ version, description }, { version: 1, description: "" });
});

Deno.test.each([
  {
    name: "a key that is missing",
    lines: without("skeptic_system"),
    reason: /"\/prompts\/network\.en\.yaml": key "skeptic_system" is missing$/,
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
    name: "a version that is no number",
    lines: [...without("version"), "version: two"],
    reason: /line 8: version must be a whole number$/,
  },
  {
    name: "version 0",
    lines: [...without("version"), "version: 0"],
    reason: /line 8: version must be 1 or more$/,
  },
  {
    name: "text that is no YAML",
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
    name: "a text that is longer than a model should get",
    lines: [...without("skeptic_system"), `skeptic_system: ${"a".repeat(40_001)}`],
    reason: /line 8: skeptic_system must have at most 40000 characters$/,
  },
])("parseTemplate() refuses $name, with line and reason", ({ lines, reason }) => {
  assert.throws(() => parse(lines), (error) => error instanceof AppError && reason.test(error.message));
});

Deno.test.each([
  { file: "network.es.yaml", reason: /line 2: language is "en", but the file's name says "es"$/ },
  { file: "other.en.yaml", reason: /line 1: name is "network", but the file's name says "other"$/ },
  { file: "network.yaml", reason: /the file's name is not <name>\.<language>\.yaml/ },
  { file: "Network.en.yaml", reason: /the file's name is not/ },
])("parseTemplate() refuses the content in a file $file", ({ file, reason }) => {
  assert.throws(() => parse(WHOLE, file), { message: reason });
});

Deno.test("parseTemplate() names every problem of a file", () => {
  assert.throws(() => parse(["name: network", "language: en", "a: 1", "b: 2"]), {
    message: [
      'Cannot load prompt template "/prompts/network.en.yaml": 5 problems',
      'key "diagnostic_system" is missing',
      'key "skeptic_system" is missing',
      'key "moderator_system" is missing',
      'line 3: unknown key "a"',
      'line 4: unknown key "b"',
    ].join("\n  "),
  });
});

Deno.test("parseTemplate() takes __proto__ for a key like any other", () => {
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
