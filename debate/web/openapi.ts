import * as z from "@zod/zod";
import { approvalBody, commentBody, optionsBody, previewBody, titleBody } from "./bodies.ts";

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

/** A field of a form; files come under the name of the field, as often as it may have some. */
interface FormField {
  readonly type: "text" | "boolean" | "number" | "file" | "files";
  readonly about: string;
  readonly required?: true;
}

interface Operation {
  readonly summary: string;
  readonly json?: z.ZodType | "record";
  readonly form?: Readonly<Record<string, FormField>>;
  readonly answer: string;
  readonly type?: string;
  readonly refusals?: readonly number[];
}

const RUN = "/api/runs/{run_id}";
const text = (about: string): FormField => ({ type: "text", about });
const flag = (about: string): FormField => ({ type: "boolean", about });
const number = (about: string): FormField => ({ type: "number", about });
const OPTIONS = {
  require_approval: flag("ask before sensitive tools run"),
  pause_between_rounds: flag("wait for a comment after each round"),
};
const OK = "`status` is `ok`";

export const OPERATIONS: Readonly<Record<string, Readonly<Record<string, Operation>>>> = {
  "/api/openapi.json": { GET: { summary: "This description", answer: "OpenAPI 3.1" } },
  "/api/settings": {
    GET: { summary: "The settings that a form starts from", answer: "the settings by name" },
  },
  "/api/prompts": {
    GET: {
      summary: "The prompt templates",
      answer: "`templates`, each with `name`, `language`, `version`, `description`, `source`",
    },
  },
  "/api/prompts/{name}/{language}": {
    GET: {
      summary: "A template as the text of a file, to start another one from",
      answer: "`file`, `source` and `text`",
      refusals: [404],
    },
  },
  "/api/prompts/preview": {
    POST: {
      summary: "Checks a template and shows what the agents would be sent; nothing is stored",
      json: previewBody,
      answer: "`problem`, or null, and `prompts`, each with `node` and `messages`",
      refusals: [400, 413],
    },
  },
  "/api/models": {
    GET: {
      summary: "The models that can be chosen",
      answer:
        "`models`, each with `id`, `name`, `provider` and `price` (US dollars per million tokens, or null), and " +
        "`problems` of providers that could not be asked",
    },
  },
  "/api/models/refresh": {
    GET: { summary: "The same, asked anew; for old clients", answer: "as GET /api/models" },
    POST: { summary: "The models, asked anew", answer: "as GET /api/models" },
  },
  "/api/auth/status": {
    GET: { summary: "The state of the logins at the providers", answer: "the state, without tokens" },
  },
  "/api/auth/copilot": {
    POST: {
      summary: "Logs in to a provider by the device flow",
      form: {
        action: { ...text("`start` or `check`"), required: true },
        device_code: text("for `check`: that of the answer to `start`"),
      },
      answer: "the state of the login; failures are told in it as `error`",
      refusals: [422],
    },
  },
  "/api/runs": {
    GET: {
      summary: "The runs, newest first",
      answer: "`runs`, a list of their headers, with `waits_for`: `approval`, `comment` or null",
    },
    POST: {
      summary: "Starts a run",
      form: {
        topic: { ...text("the incident, at most 20,000 characters"), required: true },
        diagnostic_model: text("id of a model, `provider/name`; empty: that of the settings"),
        skeptic_model: text("likewise"),
        moderator_model: text("likewise"),
        diagnostic_reasoning_effort: text("`none`, `low`, `medium` or `high`"),
        skeptic_reasoning_effort: text("likewise"),
        moderator_reasoning_effort: text("likewise"),
        mode: text("`debate`, or `sample_then_debate`: independent diagnoses, debated where they differ"),
        template: text("name of a prompt template"),
        language: text("language of the template"),
        ...OPTIONS,
        incident_file: { type: "file", about: "details of the incident, text in UTF-8" },
        base_context: { type: "files", about: "what the agents should know about the systems" },
        project_path: text("a folder on the server, inside its allowed roots"),
        include_patterns: text("files of the project, separated by commas"),
        max_files: number("of the project, 1 to 1000"),
        max_chars_per_file: number("1 to 1,000,000"),
        no_redact_context: flag("send secrets in files to the models as they are"),
      },
      answer: "`run_id`",
      refusals: [400, 413, 422, 429],
    },
  },
  "/api/runs/import": {
    POST: {
      summary: "Stores the record of another server's run, marked as imported",
      json: "record",
      answer: "`run_id`, a new one",
      refusals: [413, 422],
    },
  },
  [RUN]: {
    GET: { summary: "The record of a run, with its events so far", answer: "the record", refusals: [404] },
    DELETE: {
      summary: "Stops a run in progress and keeps its record; removes any other run",
      answer: "`status` is `cancelling` or `deleted`",
      refusals: [404],
    },
  },
  [`${RUN}/resume`]: {
    POST: {
      summary: "Starts a new run from this one, with new evidence",
      form: {
        new_evidence: text("required unless there are files"),
        evidence_file: { type: "files", about: "text in UTF-8" },
        ...OPTIONS,
      },
      answer: "`run_id` of the new run",
      refusals: [400, 404, 409, 413],
    },
  },
  [`${RUN}/approval`]: {
    POST: {
      summary: "Decides on a tool call that waits; the first decision counts",
      json: approvalBody,
      answer: OK,
      refusals: [404, 410, 422],
    },
  },
  [`${RUN}/comment`]: {
    POST: {
      summary: "Comments between two rounds, and pins, drops or adds hypotheses",
      json: commentBody,
      answer: OK,
      refusals: [400, 404, 409, 422],
    },
  },
  [`${RUN}/options`]: {
    POST: {
      summary: "Reads or changes the options of a run in progress",
      json: optionsBody,
      answer: "the options as they are now",
      refusals: [404, 422],
    },
  },
  [`${RUN}/events`]: {
    GET: {
      summary: "The events of a run as they come, from the beginning or after `Last-Event-ID`",
      answer: "one event a message, until `run_finished`",
      type: "text/event-stream",
      refusals: [404],
    },
  },
  [`${RUN}/title`]: {
    POST: {
      summary: "Gives a run that has ended a title; an empty one takes it away",
      json: titleBody,
      answer: OK,
      refusals: [404, 409, 422],
    },
  },
  [`${RUN}/report`]: {
    GET: { summary: "The report", answer: "Markdown to save", type: "text/markdown", refusals: [404] },
  },
  [`${RUN}/report.html`]: {
    GET: { summary: "The report as one file", answer: "HTML to save", type: "text/html", refusals: [404] },
  },
};
