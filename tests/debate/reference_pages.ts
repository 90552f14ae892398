/**
 * Writes `REFERENCE.md` and `.env.example` of the debate from schemas and types: `deno task docs:config`.
 * @module
 */
import { settingsSchema } from "@gateway/debate/config";
import { type Shape, shapeOf } from "../../shared/config/problems.ts";
import { createTools } from "../../debate/tools/catalogue.ts";
import { BARE_SETTINGS, FakePorts } from "../../debate/tools/testing/tool_bench.ts";
import { OPERATIONS } from "../../debate/web/routes.ts";

const DEBATE = new URL("../../debate/", import.meta.url);

/** The generated files, by their path below `debate/`. */
export async function referencePages(): Promise<Readonly<Record<string, string>>> {
  const [events, record] = await Promise.all(
    ["engine/events.ts", "runs/record.ts"].map((path) => Deno.readTextFile(new URL(path, DEBATE))),
  );
  return { "REFERENCE.md": referencePage(events ?? "", record ?? ""), ".env.example": envExample() };
}

function referencePage(events: string, record: string): string {
  const sections = [
    "# Reference of the debate",
    "`deno task docs:config` writes this page; a test compares it with the program. Settings are in " +
    "[CONFIG.md](CONFIG.md), and as a file to start from in [.env.example](.env.example).",
    "## Routes",
    "`GET /api/openapi.json` is the same as OpenAPI 3.1. Refusals are `application/problem+json`.",
    table(["Route", "What", "Body", "Answer"], routeRows()),
    "## Events",
    "Messages of `GET /api/runs/{run_id}/events`, and the `events` of a record, each with its `timestamp`.",
    ...structsOf(events).flatMap(describeEvent),
    "## Record",
    "One JSON file for each run, in this order.",
    table(
      ["Field", "Type", "Meaning"],
      structsOf(record).filter(({ name }) => /^Run(?:Header|Record)$/.test(name))
        .flatMap(({ fields }) => fields.map(fieldRow)),
    ),
    "## Tools",
    ...allTools().flatMap(describeTool),
  ];
  return `${sections.join("\n\n")}\n`;
}

function routeRows(): readonly (readonly string[])[] {
  return Object.entries(OPERATIONS).map(([route, { summary, json, form, answer }]) => {
    const fields = form === undefined
      ? json === undefined || json === "record" ? [] : keysOf(json)
      : Object.keys(form);
    const body = json === "record" ? "a record" : fields.map((each) => `\`${each}\``).join(", ");
    return [`\`${route}\``, summary, body, answer];
  });
}

function keysOf(schema: Parameters<typeof shapeOf>[0]): readonly string[] {
  return Object.keys(shapeOf(schema).properties ?? {});
}

interface Field {
  readonly name: string;
  readonly type: string;
  readonly about: string;
}

interface Struct {
  readonly name: string;
  readonly parent: string | undefined;
  readonly about: string;
  readonly fields: readonly Field[];
}

const STRUCT =
  /(?:\/\*\*((?:(?!\*\/)[^])*)\*\/\n)?(?:export )?interface (\w+)(?: extends (\w+))? \{\n([^]*?)\n\}/g;
/** A case of a union type. */
const CASE = /(?:\/\*\*((?:(?!\*\/)[^])*)\*\/\n)? {2}\| (?:(\w+) & )?\{([^{}]*)\}/g;
const FIELD = /(?:\/\*\*((?:(?!\*\/)[^])*)\*\/\s*)?readonly (\w+\??): ([^;]+)(?:;|$)/g;

/**
 * The interfaces of a module and the cases of its union types. A field has the form `readonly name: Type;`.
 */
function structsOf(source: string): readonly Struct[] {
  const cases = [...source.matchAll(CASE)].map(([, about, parent, body]) => ({
    name: "",
    about,
    parent,
    body,
  }));
  const interfaces = [...source.matchAll(STRUCT)].map(([, about, name = "", parent, body]) => (
    { name, about, parent, body }
  ));
  return [...interfaces, ...cases].map(({ name, about, parent, body = "" }) => ({
    name,
    parent,
    about: oneLine(about),
    fields: [...body.trim().matchAll(FIELD)].map(([, said, field = "", type = ""]) => (
      { name: field, type: oneLine(type), about: oneLine(said) }
    )),
  }));
}

function oneLine(comment: string | undefined): string {
  return (comment ?? "").replace(/\n\s*\*?/g, " ").replace(/\{@linkcode (\w+)\}/g, "$1").replace(/\s+/g, " ")
    .trim();
}

function describeEvent(struct: Struct, _: number, all: readonly Struct[]): readonly string[] {
  const type = struct.fields.find(({ name }) => name === "type")?.type.replaceAll('"', "");
  if (type === undefined) return [];
  const inherited = all.find(({ name }) => name === struct.parent)?.fields ?? [];
  const fields = [...inherited, ...struct.fields.filter(({ name }) => name !== "type")];
  const rows = fields.length === 0 ? [] : [table(["Field", "Type", "Meaning"], fields.map(fieldRow))];
  return [`### ${type}`, struct.about, ...rows];
}

function fieldRow({ name, type, about }: Field): readonly string[] {
  return [`\`${name}\``, `\`${type}\``, about];
}

function allTools() {
  const settings = {
    ...BARE_SETTINGS,
    HTTP_ALLOWED_HOSTS: ["a.example"],
    PROMETHEUS_URL: "http://a.example",
    LOKI_URL: "http://a.example",
    ELASTICSEARCH_URL: "http://a.example",
    DATABASE_URL: "postgres://a.example/a",
    SSH_KNOWN_HOSTS: "/a",
  };
  return createTools(settings, new FakePorts());
}

function describeTool(
  { name, description, parameters }: ReturnType<typeof allTools>[number],
): readonly string[] {
  const shape: Shape = parameters;
  const rows = Object.entries(shape.properties ?? {}).map(([key, member]) => [
    `\`${key}\``,
    member.type ?? "",
    member.default === undefined
      ? shape.required?.includes(key) ? "required" : ""
      : `\`${JSON.stringify(member.default)}\``,
    member.description ?? "",
  ]);
  return [`### ${name}`, description, table(["Argument", "Type", "Default", "Meaning"], rows)];
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) =>
    `| ${cells.map((each) => each.replaceAll("|", "\\|")).join(" | ")} |`;
  return [line(head), `|${"---|".repeat(head.length)}`, ...rows.map(line)].join("\n");
}

function envExample(): string {
  const lines = Object.entries(shapeOf(settingsSchema).properties ?? {}).flatMap((
    [name, { description, ...shape }],
  ) => [
    `# ${description ?? ""}`,
    `# ${name}=${valueOf(shape.default)}`,
    "",
  ]);
  return [
    "# Settings of the debate, with their defaults: copy to .env, and take the # away where you change one.",
    "",
    ...lines,
  ]
    .join("\n");
}

function valueOf(value: unknown): string {
  if (Array.isArray(value)) return value.join(",");
  if (typeof value === "object" && value !== null) {
    return Object.keys(value).length === 0 ? "" : `'${JSON.stringify(value)}'`;
  }
  return value === undefined || value === null ? "" : String(value);
}

if (import.meta.main) {
  for (const [path, text] of Object.entries(await referencePages())) {
    await Deno.writeTextFile(new URL(path, DEBATE), text);
  }
}
