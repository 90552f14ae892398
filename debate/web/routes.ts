import type { RouteHandler } from "@gateway/shared/http/routes";
import * as z from "@zod/zod";
import * as alerts from "./alert_handlers.ts";
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
  /** The status of the answer; 200 if absent. */
  readonly status?: number;
  /** The scheme of `components.securitySchemes`, if it is not that of the page. */
  readonly security?: "alerts";
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
const OK = "`status` is `ok`";

/** All routes except the files of the page, by method and path. */
export const OPERATIONS: Readonly<Record<string, Operation>> = {
  "GET /api/openapi.json": {
    handle: () => Response.json(openApi()),
    summary: "Describe this API",
    answer: "OpenAPI 3.1",
  },
  "GET /api/settings": {
    handle: service.handleSettings,
    summary: "Get the default values of the start form, and the tools",
    answer:
      "settings by name, and `tools`, each with `name`, `description`, `available`, `why` (the reason if it is off) and `needs_approval`",
  },
  "GET /api/prompts": {
    handle: service.handlePrompts,
    summary: "List the prompt templates",
    answer: "`templates`, each with `name`, `language`, `version`, `description`, `source`",
  },
  "GET /api/prompts/{name}/{language}": {
    handle: service.handleTemplate,
    summary: "Get a template as the text of a file",
    answer: "`file`, `source` and `text`",
  },
  "POST /api/prompts/preview": {
    handle: service.handlePreview,
    summary: "Check a template and preview the prompts of the first round",
    json: bodies.previewBody,
    answer: "`problem` (or null) and `prompts`, each with `node` and `messages`",
    refusals: [400, 413],
  },
  "GET /api/models": {
    handle: service.handleModels,
    summary: "List the available models",
    answer:
      "`models`, each with `id`, `name`, `provider` and `price` (US dollars per million tokens, or null), and " +
      "`problems` of providers that did not respond",
  },
  "GET /api/models/refresh": {
    handle: service.handleRefresh,
    summary: "Refresh the models (for old clients)",
    answer: "as GET /api/models",
  },
  "POST /api/models/refresh": {
    handle: service.handleRefresh,
    summary: "Refresh the models",
    answer: "as GET /api/models",
  },
  "GET /api/auth/status": {
    handle: service.handleAuthStatus,
    summary: "Get the login state of the providers",
    answer: "login state without tokens",
  },
  "POST /api/auth/copilot": {
    handle: service.handleLogin,
    summary: "Log in to provider B by the device flow",
    form: {
      action: z.string().describe("`start` or `check`"),
      device_code: text("for `check`: the code from the response to `start`"),
    },
    answer: "login state; `error` contains the reason of a failure",
    refusals: [422],
  },
  "GET /api/alerts": {
    handle: alerts.handleListAlerts,
    summary: "List the open alerts, newest first",
    answer:
      "`alerts`, each with `title`, `severity`, `since`, `run_id`, `url`, and `status` and `outcome` of its run (or null)",
  },
  "POST /api/alerts": {
    handle: alerts.refuseAlert,
    summary: "Receive an alert of Alertmanager, Grafana or PagerDuty; requires ALERT_SECRET",
    json: bodies.alertBody,
    answer:
      "`status` is `accepted`, `joined`, `closed` or `ignored`; `alert_id`, `run_id` and `url` (or null)",
    status: 202,
    security: "alerts",
    refusals: [404, 413, 422, 503],
  },
  "GET /api/runs": {
    handle: runs.handleListRuns,
    summary: "List the runs, newest first",
    answer: "`runs` with their headers and `waits_for`: `approval`, `comment` or null",
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
    answer: "`run_id`",
    refusals: [400, 413, 422, 429],
  },
  "POST /api/runs/import": {
    handle: runs.handleImport,
    summary: "Import the record of a run of another server",
    json: "record",
    answer: "new `run_id`",
    refusals: [413, 422],
  },
  [`GET ${RUN}`]: {
    handle: runs.handleGetRun,
    summary: "Get the record of a run with its events so far",
    answer: "record",
  },
  [`DELETE ${RUN}`]: {
    handle: runs.handleDeleteRun,
    summary: "Stop a run in progress, or delete a finished run",
    answer: "`status` is `cancelling` or `deleted`",
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
    answer: "`run_id` of the new run",
    refusals: [400, 409, 413],
  },
  [`POST ${RUN}/approval`]: {
    handle: runs.handleApproval,
    summary: "Decide on a pending tool call; the first decision counts",
    json: bodies.approvalBody,
    answer: OK,
    refusals: [410, 422],
  },
  [`POST ${RUN}/comment`]: {
    handle: runs.handleComment,
    summary: "Comment between two rounds; pin, drop or add hypotheses",
    json: bodies.commentBody,
    answer: OK,
    refusals: [400, 409, 422],
  },
  [`POST ${RUN}/options`]: {
    handle: runs.handleOptions,
    summary: "Get or change the options of a run in progress",
    json: bodies.optionsBody,
    answer: "current options",
    refusals: [422],
  },
  [`GET ${RUN}/events`]: {
    handle: ({ events }, { request, param }) => events.handle(request, param("run_id")),
    summary: "Stream the events of a run from the start or after `Last-Event-ID`",
    answer: "one event per message, until `run_finished`",
    type: "text/event-stream",
  },
  [`POST ${RUN}/title`]: {
    handle: runs.handleTitle,
    summary: "Set or remove the title of a finished run",
    json: bodies.titleBody,
    answer: OK,
    refusals: [409, 422],
  },
  [`GET ${RUN}/report`]: {
    handle: runs.handleReport,
    summary: "Get the report",
    answer: "Markdown download",
    type: "text/markdown",
  },
  [`GET ${RUN}/report.html`]: {
    handle: runs.handleHtmlReport,
    summary: "Get the report as one HTML file",
    answer: "HTML download",
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

const REFUSALS: Readonly<Record<number, string>> = {
  400: "An invalid value",
  401: "The credentials are missing or wrong",
  404: "There is no such run or pending request, or the route is off",
  409: "The state of the run does not allow this",
  410: "The run has ended",
  413: "The body is too large",
  422: "A field is missing or of the wrong type",
  429: "Too many requests; see Retry-After",
  503: "The server is full or stopping; see Retry-After",
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
      schemas: { Problem: toJsonSchema(problem) },
    },
  };
}

function describe(operation: Operation, path: string): object {
  const { summary, answer, type = "application/json", status: success = 200, security, refusals = [] } =
    operation;
  const statuses = [...EVERYWHERE, ...path.includes("{") ? [404] : [], ...refusals];
  const content = bodyOf(operation);
  return {
    summary,
    ...(security !== undefined && { security: [{ [security]: [] }] }),
    ...(content !== undefined && { requestBody: { required: true, content } }),
    responses: {
      [success]: { description: answer, content: { [type]: {} } },
      ...Object.fromEntries(statuses.map((status) => [status, {
        description: REFUSALS[status] ?? "Rejected",
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
