import type { RouteHandler } from "@gateway/shared/http/routes";
import * as z from "@zod/zod";
import * as bodies from "./bodies.ts";
import * as runs from "./run_handlers.ts";
import * as service from "./settings_handlers.ts";
import type { RoutePorts } from "./ports.ts";

interface Operation {
  readonly handle: RouteHandler<RoutePorts, object>;
  readonly summary: string;
  readonly json?: z.ZodType | "record";
  readonly form?: Readonly<Record<string, z.ZodType>>;
  readonly answer: string;
  readonly type?: string;
  readonly refusals?: readonly number[];
}

const RUN = "/api/runs/{run_id}";
const text = (about: string) => z.string().optional().describe(about);
const flag = (about: string) => z.boolean().optional().describe(about);
const count = (max: number, about: string) => z.int().min(1).max(max).optional().describe(about);
const file = z.string().meta({ contentMediaType: "application/octet-stream" });
const files = (about: string) => z.array(file).optional().describe(about);
const OPTIONS = {
  require_approval: flag("ask before sensitive tools run"),
  pause_between_rounds: flag("wait for a comment after each round"),
};
const OK = "`status` is `ok`";

/** The server's routes, other than those of the page's files, by method and path. */
export const OPERATIONS: Readonly<Record<string, Operation>> = {
  "GET /api/openapi.json": {
    handle: () => Response.json(openApi()),
    summary: "This description",
    answer: "OpenAPI 3.1",
  },
  "GET /api/settings": {
    handle: service.handleSettings,
    summary: "The settings that a form starts from",
    answer: "the settings by name",
  },
  "GET /api/prompts": {
    handle: service.handlePrompts,
    summary: "The prompt templates",
    answer: "`templates`, each with `name`, `language`, `version`, `description`, `source`",
  },
  "GET /api/prompts/{name}/{language}": {
    handle: service.handleTemplate,
    summary: "A template as the text of a file, to start another one from",
    answer: "`file`, `source` and `text`",
  },
  "POST /api/prompts/preview": {
    handle: service.handlePreview,
    summary: "Checks a template and shows what the agents would be sent; nothing is stored",
    json: bodies.previewBody,
    answer: "`problem`, or null, and `prompts`, each with `node` and `messages`",
    refusals: [400, 413],
  },
  "GET /api/models": {
    handle: service.handleModels,
    summary: "The models that can be chosen",
    answer:
      "`models`, each with `id`, `name`, `provider` and `price` (US dollars per million tokens, or null), and " +
      "`problems` of providers that could not be asked",
  },
  "GET /api/models/refresh": {
    handle: service.handleRefresh,
    summary: "The same, asked anew; for old clients",
    answer: "as GET /api/models",
  },
  "POST /api/models/refresh": {
    handle: service.handleRefresh,
    summary: "The models, asked anew",
    answer: "as GET /api/models",
  },
  "GET /api/auth/status": {
    handle: service.handleAuthStatus,
    summary: "The state of the logins at the providers",
    answer: "the state, without tokens",
  },
  "POST /api/auth/copilot": {
    handle: service.handleLogin,
    summary: "Logs in to a provider by the device flow",
    form: {
      action: z.string().describe("`start` or `check`"),
      device_code: text("for `check`: that of the answer to `start`"),
    },
    answer: "the state of the login; failures are told in it as `error`",
    refusals: [422],
  },
  "GET /api/runs": {
    handle: runs.handleListRuns,
    summary: "The runs, newest first",
    answer: "`runs`, a list of their headers, with `waits_for`: `approval`, `comment` or null",
  },
  "POST /api/runs": {
    handle: runs.handleStartRun,
    summary: "Starts a run",
    form: {
      topic: z.string().describe("the incident, at most 20,000 characters"),
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
      incident_file: file.optional().describe("details of the incident, text in UTF-8"),
      base_context: files("what the agents should know about the systems"),
      project_path: text("a folder on the server, inside its allowed roots"),
      include_patterns: text("files of the project, separated by commas"),
      max_files: count(1000, "of the project"),
      max_chars_per_file: count(1_000_000, "characters of each file"),
      no_redact_context: flag("send secrets in files to the models as they are"),
    },
    answer: "`run_id`",
    refusals: [400, 413, 422, 429],
  },
  "POST /api/runs/import": {
    handle: runs.handleImport,
    summary: "Stores the record of another server's run, marked as imported",
    json: "record",
    answer: "`run_id`, a new one",
    refusals: [413, 422],
  },
  [`GET ${RUN}`]: {
    handle: runs.handleGetRun,
    summary: "The record of a run, with its events so far",
    answer: "the record",
  },
  [`DELETE ${RUN}`]: {
    handle: runs.handleDeleteRun,
    summary: "Stops a run in progress and keeps its record; removes any other run",
    answer: "`status` is `cancelling` or `deleted`",
  },
  [`POST ${RUN}/resume`]: {
    handle: runs.handleResume,
    summary: "Starts a new run from this one, with new evidence",
    form: {
      new_evidence: text("required unless there are files"),
      evidence_file: files("text in UTF-8"),
      ...OPTIONS,
    },
    answer: "`run_id` of the new run",
    refusals: [400, 409, 413],
  },
  [`POST ${RUN}/approval`]: {
    handle: runs.handleApproval,
    summary: "Decides on a tool call that waits; the first decision counts",
    json: bodies.approvalBody,
    answer: OK,
    refusals: [410, 422],
  },
  [`POST ${RUN}/comment`]: {
    handle: runs.handleComment,
    summary: "Comments between two rounds, and pins, drops or adds hypotheses",
    json: bodies.commentBody,
    answer: OK,
    refusals: [400, 409, 422],
  },
  [`POST ${RUN}/options`]: {
    handle: runs.handleOptions,
    summary: "Reads or changes the options of a run in progress",
    json: bodies.optionsBody,
    answer: "the options as they are now",
    refusals: [422],
  },
  [`GET ${RUN}/events`]: {
    handle: ({ events }, { request, param }) => events.handle(request, param("run_id")),
    summary: "The events of a run as they come, from the beginning or after `Last-Event-ID`",
    answer: "one event a message, until `run_finished`",
    type: "text/event-stream",
  },
  [`POST ${RUN}/title`]: {
    handle: runs.handleTitle,
    summary: "Gives a run that has ended a title; an empty one takes it away",
    json: bodies.titleBody,
    answer: OK,
    refusals: [409, 422],
  },
  [`GET ${RUN}/report`]: {
    handle: runs.handleReport,
    summary: "The report",
    answer: "Markdown to save",
    type: "text/markdown",
  },
  [`GET ${RUN}/report.html`]: {
    handle: runs.handleHtmlReport,
    summary: "The report as one file",
    answer: "HTML to save",
    type: "text/html",
  },
};

/** The operations by path, then by method. */
function byPath<T>(toPath: (path: string) => string, toEntry: (operation: Operation, path: string) => T) {
  const groups = Map.groupBy(Object.entries(OPERATIONS), ([key]) => key.slice(key.indexOf(" ") + 1));
  return Object.fromEntries([...groups].map(([path, operations]) => {
    const entries = operations.map(([key, operation]) => {
      const [method = ""] = key.split(" ");
      return [method, toEntry(operation, path)] as const;
    });
    return [toPath(path), Object.fromEntries(entries)];
  }));
}

export const DEBATE_ROUTES = byPath(
  (path) => path.replace("{run_id}", ":run_id{[0-9a-f]{32}}").replace(/\{([a-z]+)\}/g, ":$1"),
  ({ handle }) => handle,
);

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
const problem = z.object({
  ...{ type: z.string(), title: z.string(), status: z.int(), code: z.string() },
  detail: z.string().optional(),
}).describe("RFC 9457");
function openApi(): object {
  const paths = Object.entries(byPath((path) => path, describe)).map(([path, methods]) => {
    const parameters = PARAMETERS.filter(([name]) => path.includes(`{${name}}`))
      .map(([name, schema]) => ({ name, in: "path", required: true, schema }));
    const operations = Object.entries(methods).map(([method, each]) => [method.toLowerCase(), each]);
    return [path, { ...(parameters.length > 0 && { parameters }), ...Object.fromEntries(operations) }];
  });
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
      schemas: { Problem: toJsonSchema(problem) },
    },
  };
}

function describe(operation: Operation, path: string): object {
  const { summary, answer, type = "application/json", refusals = [] } = operation;
  const statuses = [...EVERYWHERE, ...path.includes("{") ? [404] : [], ...refusals];
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
  if (json === "record") return { "application/json": { schema: { type: "object" } } };
  const body = json ?? (form && z.object(form));
  if (body === undefined) return undefined;
  return {
    [json === undefined ? "multipart/form-data" : "application/json"]: { schema: toJsonSchema(body) },
  };
}

function toJsonSchema(body: z.ZodType): object {
  const { $schema: _, ...schema } = z.toJSONSchema(body, { io: "input" });
  return schema;
}
