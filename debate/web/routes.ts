import type { RouteHandler } from "@gateway/shared/http/routes";
import * as z from "@zod/zod";
import * as alerts from "./alert_handlers.ts";
import { ANSWERS, toJsonSchema } from "./answers.ts";
import * as bodies from "./bodies.ts";
import * as runs from "./run_handlers.ts";
import * as service from "./settings_handlers.ts";
import type { RoutePorts } from "./ports.ts";

interface Operation {
  readonly handle: RouteHandler<RoutePorts, object>;
  readonly summary: string;
  readonly json?: z.ZodType;
  readonly form?: Readonly<Record<string, z.ZodType>>;
  /** The schema of a JSON answer. */
  readonly returns?: z.ZodType;
  /** The media type of another answer. */
  readonly type?: string;
  /** The status of the answer; 200 if absent. */
  readonly status?: number;
  /** The scheme of `components.securitySchemes`, if it is not that of the page. */
  readonly security?: "alerts";
  /** The statuses of errors that do not follow from path, body and method. */
  readonly refusals?: readonly number[];
}

const RUN = "/api/runs/{run_id}";
const text = (about: string) => z.string().optional().describe(about);
const flag = (about: string) => z.boolean().optional().describe(about);
const count = (max: number, about: string) => z.int().min(1).max(max).optional().describe(about);
const file = z.string().meta({ contentMediaType: "application/octet-stream" });
const files = (about: string) => z.array(file).optional().describe(about);
const OPTIONS = {
  require_approval: flag("require approval for sensitive tools"),
  pause_between_rounds: flag("wait for a comment after each round"),
};

/** All routes except the files of the page, by method and path. */
export const OPERATIONS: Readonly<Record<string, Operation>> = {
  "GET /api/openapi.json": {
    handle: () => Response.json(openApi()),
    summary: "Describe this API",
    returns: ANSWERS.openApi,
  },
  "GET /api/schema/run": {
    handle: () => Response.json({ $schema: DIALECT, ...toJsonSchema(ANSWERS.run) }),
    summary: "Get the JSON schema of a stored record",
    returns: ANSWERS.schema,
  },
  "GET /api/settings": {
    handle: service.handleSettings,
    summary: "Get the default values of the start form, the providers and the tools",
    returns: ANSWERS.settings,
  },
  "GET /api/prompts": {
    handle: service.handlePrompts,
    summary: "List the prompt templates",
    returns: ANSWERS.templates,
  },
  "GET /api/prompts/{name}/{language}": {
    handle: service.handleTemplate,
    summary: "Get a template as the text of a file",
    returns: ANSWERS.template,
  },
  "POST /api/prompts/preview": {
    handle: service.handlePreview,
    summary: "Check a template and preview the prompts of the first round",
    json: bodies.previewBody,
    returns: ANSWERS.preview,
  },
  "GET /api/models": {
    handle: service.handleModels,
    summary: "List the available models",
    returns: ANSWERS.models,
  },
  "POST /api/models/refresh": {
    handle: service.handleRefresh,
    summary: "Refresh the models",
    returns: ANSWERS.models,
  },
  "GET /api/auth/status": {
    handle: service.handleAuthStatus,
    summary: "Get the login state of the providers",
    returns: ANSWERS.authStatus,
  },
  "POST /api/auth/copilot": {
    handle: service.handleLogin,
    summary: "Log in to the provider `assist` by the device flow",
    form: {
      action: z.string().describe("`start` or `check`"),
      device_code: text("for `check`: the code from the response to `start`"),
    },
    returns: ANSWERS.login,
    refusals: [422],
  },
  "GET /api/alerts": {
    handle: alerts.handleListAlerts,
    summary: "List the open alerts, newest first",
    returns: ANSWERS.alerts,
  },
  "POST /api/alerts": {
    handle: alerts.refuseAlert,
    summary: "Receive an alert of Alertmanager, Grafana or PagerDuty; requires ALERT_SECRET",
    json: bodies.alertBody,
    returns: ANSWERS.received,
    status: 202,
    security: "alerts",
    refusals: [404, 503],
  },
  "GET /api/runs": {
    handle: runs.handleListRuns,
    summary: "List the runs, newest first",
    returns: ANSWERS.runs,
  },
  "POST /api/runs": {
    handle: runs.handleStartRun,
    summary: "Start a run",
    form: {
      topic: z.string().describe("incident, at most 20,000 characters"),
      diagnostic_model: text("model ID, `provider/name` (default: DIAGNOSTIC_MODEL)"),
      skeptic_model: text("model ID (default: SKEPTIC_MODEL)"),
      moderator_model: text("model ID (default: MODERATOR_MODEL)"),
      diagnostic_reasoning_effort: text("`none`, `low`, `medium` or `high`"),
      skeptic_reasoning_effort: text("`none`, `low`, `medium` or `high`"),
      moderator_reasoning_effort: text("`none`, `low`, `medium` or `high`"),
      mode: text("`debate`, or `sample_then_debate` to start with independent diagnoses"),
      template: text("name of a prompt template"),
      language: text("language of the template"),
      ...OPTIONS,
      incident_file: file.optional().describe("details of the incident, UTF-8 text"),
      base_context: files("background about the systems, UTF-8 text"),
      project_path: text("directory on the server, in ALLOWED_PROJECT_ROOTS"),
      include_patterns: text("globs of project files, separated by commas"),
      max_files: count(1000, "maximum number of project files"),
      max_chars_per_file: count(1_000_000, "maximum characters of a file"),
      no_redact_context: flag("send secrets in the context to the models"),
    },
    returns: ANSWERS.started,
    refusals: [422],
  },
  "POST /api/runs/import": {
    handle: runs.handleImport,
    summary: "Import the record of a run of another server",
    json: ANSWERS.run,
    returns: ANSWERS.started,
  },
  [`GET ${RUN}`]: {
    handle: runs.handleGetRun,
    summary: "Get the record of a run with its events so far",
    returns: ANSWERS.run,
  },
  [`DELETE ${RUN}`]: {
    handle: runs.handleDeleteRun,
    summary: "Stop a run in progress, or delete a finished run",
    returns: ANSWERS.deleted,
  },
  [`POST ${RUN}/resume`]: {
    handle: runs.handleResume,
    summary: "Start a new run from this run and new evidence",
    form: {
      new_evidence: text(
        "new evidence (required without evidence_file, unless the run failed or was interrupted)",
      ),
      evidence_file: files("new evidence, UTF-8 text"),
      ...OPTIONS,
    },
    returns: ANSWERS.started,
    refusals: [409],
  },
  [`POST ${RUN}/approval`]: {
    handle: runs.handleApproval,
    summary: "Decide on a pending tool call; the first decision counts",
    json: bodies.approvalBody,
    returns: ANSWERS.ok,
    refusals: [410],
  },
  [`POST ${RUN}/comment`]: {
    handle: runs.handleComment,
    summary: "Comment between two rounds; pin, drop or add hypotheses",
    json: bodies.commentBody,
    returns: ANSWERS.ok,
    refusals: [400, 409],
  },
  [`POST ${RUN}/options`]: {
    handle: runs.handleOptions,
    summary: "Get or change the options of a run in progress",
    json: bodies.optionsBody,
    returns: ANSWERS.options,
  },
  [`GET ${RUN}/events`]: {
    handle: ({ events }, { request, param }) => events.handle(request, param("run_id")),
    summary: "Stream the events of a run, from the start or after `Last-Event-ID`, until `run_finished`",
    type: "text/event-stream",
  },
  [`POST ${RUN}/title`]: {
    handle: runs.handleTitle,
    summary: "Set or remove the title of a finished run",
    json: bodies.titleBody,
    returns: ANSWERS.ok,
    refusals: [409],
  },
  [`GET ${RUN}/report`]: {
    handle: runs.handleReport,
    summary: "Get the report",
    type: "text/markdown",
  },
  [`GET ${RUN}/report.html`]: {
    handle: runs.handleHtmlReport,
    summary: "Get the report as one HTML file",
    type: "text/html",
  },
};

/** Groups the operations by path, then by method. */
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

const DIALECT = "https://json-schema.org/draft/2020-12/schema";
const REFUSALS: Readonly<Record<number, string>> = {
  400: "A value is invalid, or a form is malformed",
  401: "The credentials are missing or wrong",
  403: "A page of another site sent the request, or a server without credentials got an unknown Host",
  404: "There is no such run or pending request, or the route is off",
  409: "The state of the run does not allow this",
  410: "The run has ended",
  413: "The body is too large",
  415: "The body has another content type",
  422: "A field is missing or of the wrong type",
  429: "Too many requests; see Retry-After",
  500: "The server has a fault; its log has the `request_id`",
  503: "The server is full or stopping; see Retry-After",
};
/** The guard rejects requests to every route, and any handler can fail. */
const EVERYWHERE = [401, 403, 429, 500];
const JSON_BODY = [413, 415, 422];
const FORM_BODY = [400, 413, 415];
const PARAMETERS = [
  ["run_id", { type: "string", pattern: "^[0-9a-f]{32}$" }],
  ["name", { type: "string" }],
  ["language", { type: "string" }],
] as const;
const problem = z.object({
  ...{ type: z.string(), title: z.string(), status: z.int(), code: z.string() },
  detail: z.string().optional(),
  request_id: z.string().optional(),
}).describe("RFC 9457");

/** The document of `GET /api/openapi.json`. */
export function openApi(): object {
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
      description: "Debates between language models about an incident.",
    },
    security: [{}, { basic: [] }],
    paths: Object.fromEntries(paths),
    components: {
      securitySchemes: {
        basic: { type: "http", scheme: "basic" },
        alerts: {
          type: "http",
          scheme: "bearer",
          description: "ALERT_SECRET; or X-Alert-Secret; or as password",
        },
      },
      responses: Object.fromEntries(
        Object.entries(REFUSALS).map(([status, description]) => [status, {
          description,
          content: { "application/problem+json": { schema: { $ref: "#/components/schemas/Problem" } } },
        }]),
      ),
      schemas: { Problem: toJsonSchema(problem), Run: toJsonSchema(ANSWERS.run) },
    },
  };
}

function describe(operation: Operation, path: string): object {
  const { summary, returns, type = "application/json", status: success = 200 } = operation;
  const { security, json, form } = operation;
  const statuses = [
    ...EVERYWHERE,
    ...path.includes("{") ? [404] : [],
    ...json === undefined ? form === undefined ? [] : FORM_BODY : JSON_BODY,
    ...operation.refusals ?? [],
  ];
  const media = json === undefined ? "multipart/form-data" : "application/json";
  const body = json ?? (form && z.object(form));
  return {
    summary,
    ...(security !== undefined && { security: [{ [security]: [] }] }),
    ...(body !== undefined && { requestBody: { required: true, content: { [media]: schemaOf(body) } } }),
    responses: {
      [success]: { description: "Success", content: { [type]: returns ? schemaOf(returns, "output") : {} } },
      ...Object.fromEntries(statuses.map((status) => [status, { $ref: `#/components/responses/${status}` }])),
    },
  };
}

function schemaOf(schema: z.ZodType, io?: "output"): object {
  if (schema === ANSWERS.run) return { schema: { $ref: "#/components/schemas/Run" } };
  return { schema: toJsonSchema(schema, io) };
}
