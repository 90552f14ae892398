/**
 * The OpenAPI document of the routes.
 *
 * @module
 */
import * as z from "@zod/zod";
import { type FormField, type Operation, OPERATIONS } from "./operations.ts";

const REFUSALS: Readonly<Record<number, string>> = {
  400: "An invalid value",
  401: "The credentials are missing or wrong",
  404: "There is no such run, or nothing that waits",
  409: "Not in this state of the run",
  410: "The run has ended",
  413: "The body is too large",
  422: "A field is missing or of the wrong type",
  429: "Too many at a time; see Retry-After",
};
const EVERYWHERE = [401, 429];
const PARAMETERS = [
  ["run_id", { type: "string", pattern: "^[0-9a-f]{32}$" }],
  ["name", { type: "string" }],
  ["language", { type: "string" }],
] as const;

function parametersOf(path: string): readonly object[] {
  return PARAMETERS.filter(([name]) => path.includes(`{${name}}`))
    .map(([name, schema]) => ({ name, in: "path", required: true, schema }));
}

const FIELD_SCHEMAS = {
  text: { type: "string" },
  boolean: { type: "boolean" },
  number: { type: "integer" },
  file: { type: "string", contentMediaType: "application/octet-stream" },
  files: { type: "array", items: { type: "string", contentMediaType: "application/octet-stream" } },
} as const satisfies Record<FormField["type"], object>;

/** OpenAPI 3.1. */
function openApi(): object {
  const paths = Object.entries(OPERATIONS).map(([path, methods]) => [path, {
    ...(path.includes("{") && { parameters: parametersOf(path) }),
    ...Object.fromEntries(
      Object.entries(methods).map(([method, operation]) => [method.toLowerCase(), describe(operation)]),
    ),
  }]);
  return {
    openapi: "3.1.0",
    info: {
      title: "Diagnosis debate",
      version: "1",
      description: "Runs of a structured debate between language models about an incident.",
    },
    security: [{}, { basic: [] }],
    paths: Object.fromEntries(paths),
    components: {
      securitySchemes: { basic: { type: "http", scheme: "basic" } },
      schemas: {
        Problem: {
          type: "object",
          description: "RFC 9457",
          required: ["type", "title", "status", "code"],
          properties: {
            type: { type: "string" },
            title: { type: "string" },
            status: { type: "integer" },
            detail: { type: "string" },
            code: { type: "string" },
          },
        },
      },
    },
  };
}

function describe(operation: Operation): object {
  const { summary, answer, type = "application/json", refusals = [] } = operation;
  const statuses = [...new Set([...EVERYWHERE, ...refusals])].toSorted();
  const content = bodyOf(operation);
  return {
    summary,
    ...(content !== undefined && { requestBody: { required: true, content } }),
    responses: {
      200: { description: answer, content: { [type]: {} } },
      ...Object.fromEntries(statuses.map((status) => [status, {
        description: REFUSALS[status] ?? "Refused",
        content: { "application/problem+json": { schema: { $ref: "#/components/schemas/Problem" } } },
      }])),
    },
  };
}

function bodyOf({ json, form }: Operation): object | undefined {
  if (json !== undefined) {
    return { "application/json": { schema: json === "record" ? { type: "object" } : schemaOf(json) } };
  }
  if (form === undefined) return undefined;
  const properties = Object.entries(form).map(([name, { type, about }]) => [name, {
    ...FIELD_SCHEMAS[type],
    description: about,
  }]);
  const required = Object.entries(form).filter(([, field]) => field.required).map(([name]) => name);
  const schema = {
    type: "object",
    properties: Object.fromEntries(properties),
    ...(required.length > 0 && { required }),
  };
  return { "multipart/form-data": { schema } };
}

function schemaOf(schema: z.ZodType): object {
  const { $schema: _, ...own } = z.toJSONSchema(schema, { io: "input" });
  return own;
}

export function handleOpenApi(): Response {
  return Response.json(openApi());
}
