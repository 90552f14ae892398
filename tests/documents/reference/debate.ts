/** The page and the sample settings of the debate, from schemas and types. */
import { settingsSchema } from "@gateway/debate/config";
import { describeShape } from "@gateway/shared/config";
import * as z from "@zod/zod";
import { shapeOf } from "../../../shared/config/problems.ts";
import { createTools } from "../../../debate/tools/catalogue.ts";
import { BARE_SETTINGS, FakePorts } from "../../../debate/tools/testing/tool_bench.ts";
import { RUN_SCHEMA } from "../../../debate/runs/record.ts";
import { OPERATIONS } from "../../../debate/web/routes.ts";
import { ROOT } from "../extract.ts";
import { type Struct, structsOf } from "./source.ts";
import { table } from "./table.ts";

export function debatePage(): string {
  const [events = "", record = ""] = ["engine/events.ts", "runs/record.ts"].map((path) =>
    Deno.readTextFileSync(`${ROOT}debate/${path}`)
  );
  const sections = [
    "# Reference of the debate",
    "The settings are in [configuration](configuration-debate.md), and as a file to start from in " +
    "[.env.example](../../debate/.env.example).",
    "## Routes",
    "`GET /api/openapi.json` is the same as OpenAPI 3.1, [with the schemas of all bodies](openapi-debate.json). " +
    "Errors are `application/problem+json`.",
    table(["Route", "What", "Body", "Answer"], routeRows()),
    "## Events",
    "Messages of `GET /api/runs/{run_id}/events`, and the `events` of a record, each with its `timestamp`.",
    ...structsOf(events).flatMap(describeEvent),
    "## Record",
    "One JSON file for each run, in this order. `GET /api/schema/run` is its JSON Schema. A member " +
    "with a default there can be absent. An import computes the decision and the logs again from the events.",
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
  return Object.entries(OPERATIONS).map(([route, { summary, json, form, returns, type = "" }]) => {
    const given = form === undefined ? json : z.object(form);
    const body = given === undefined ? "" : listOf(given);
    return [`\`${route}\``, summary, body, returns === undefined ? `\`${type}\`` : listOf(returns)];
  });
}

function listOf(schema: z.ZodType): string {
  if (schema === RUN_SCHEMA) return "a record";
  return Object.keys(shapeOf(schema).properties ?? {}).map((each) => `\`${each}\``).join(", ");
}

function describeEvent(struct: Struct, _: number, all: readonly Struct[]): readonly string[] {
  const type = struct.fields.find(({ name }) => name === "type")?.type.replaceAll('"', "");
  if (type === undefined) return [];
  const inherited = all.find(({ name }) => name === struct.parent)?.fields ?? [];
  const fields = [...inherited, ...struct.fields.filter(({ name }) => name !== "type")];
  const rows = fields.length === 0 ? [] : [table(["Field", "Type", "Meaning"], fields.map(fieldRow))];
  return [`### ${type}`, struct.about, ...rows];
}

function fieldRow({ name, type, about }: Struct["fields"][number]): readonly string[] {
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

function describeTool({ name, description, parameters }: ReturnType<typeof allTools>[number]) {
  return [`### ${name}`, description, describeShape(parameters)];
}

/** Returns the text of `debate/.env.example`. */
export function envExample(): string {
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
