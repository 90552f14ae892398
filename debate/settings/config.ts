import { AppError } from "@gateway/shared/errors";
import { parseConfig } from "@gateway/shared/config";
import * as z from "@zod/zod";
import { parseEnv } from "node:util";
import { RUN_MODES } from "../engine/ports.ts";
import {
  describeModelIds,
  headers,
  isHttpUrl,
  isSafeUrl,
  modelProviders,
  splitModelId,
} from "./model_providers.ts";

const text = (meaning: string, fallback = "") => z.string().default(fallback).describe(meaning);

const flag = (fallback: boolean, meaning: string) => z.boolean().default(fallback).describe(meaning);

const whole = (min: number, max: number, fallback: number, meaning: string) =>
  z.int().min(min).max(max).default(fallback).describe(meaning);

const share = (fallback: number, meaning: string) =>
  z.number().min(0).max(1).default(fallback).describe(meaning);

const list = (meaning: string, fallback: string[] = []): z.ZodType<readonly string[]> =>
  z.array(z.string()).default(fallback).describe(`${meaning}; comma-separated`);

const url = (meaning: string, isFine = isHttpUrl, problem = "must be an http: or https: URL") =>
  z.string().refine((value) => value === "" || isFine(value), problem).default("").describe(meaning);

/** A URL that receives a long-lived token; may be empty. */
const safeUrl = (meaning: string) => url(meaning, isSafeUrl, "must be an https: URL, or http: on loopback");

export const EFFORTS = ["none", "low", "medium", "high"] as const;

const effort = (role: string) => z.enum(EFFORTS).default("none").describe(`reasoning effort of the ${role}`);

/** Creates a value for each of the three debaters from its role and its settings prefix. */
export function forDebaters<T>(
  of: (
    role: "diagnostic" | "skeptic" | "moderator",
    prefix: "DIAGNOSTIC" | "SKEPTIC" | "MODERATOR",
  ) => T,
) {
  return {
    diagnostic: of("diagnostic", "DIAGNOSTIC"),
    skeptic: of("skeptic", "SKEPTIC"),
    moderator: of("moderator", "MODERATOR"),
  };
}

/** The settings that are model IDs. */
export const MODELS = [
  "DIAGNOSTIC_MODEL",
  "SKEPTIC_MODEL",
  "MODERATOR_MODEL",
  "SUMMARY_MODEL",
  "SAMPLE_MODEL",
] as const;

const LOG_LEVELS = ["DEBUG", "INFO", "WARNING", "ERROR"] as const;

export type LogLevel = (typeof LOG_LEVELS)[number];

/** A writer for each level; levels below `least` write nothing. */
export function writersFrom(
  least: LogLevel,
  write: (message: string) => void,
): Readonly<Record<LogLevel, (message: string) => void>> {
  const at = (level: LogLevel) => LOG_LEVELS.indexOf(level) >= LOG_LEVELS.indexOf(least) ? write : () => {};
  return { DEBUG: at("DEBUG"), INFO: at("INFO"), WARNING: at("WARNING"), ERROR: at("ERROR") };
}

export interface Settings extends Readonly<z.infer<typeof settingsSchema>> {
  /** The values of the key variables in MODEL_PROVIDERS, as far as they are set. */
  readonly MODEL_KEYS: Readonly<Record<string, string>>;
  /** The variables for `MCP_SERVERS_FILE`, by name. */
  readonly MCP_VARIABLES: Readonly<Record<string, string>>;
}

/** The names of variables to which `MCP_SERVERS_FILE` may refer start with this text. */
export const MCP_PREFIX = "MCP_";

export const settingsSchema = z.strictObject({
  MODEL_PROVIDERS: modelProviders.default({}).describe(
    "providers by name, as a JSON object of `{protocol, base_url, key_variable, …}`, for models `<name>/<model>`",
  ),
  HUB_TOKEN: text("access token of the provider of models `hub/<name>`"),
  HUB_BASE_URL: url("base URL of the chat completions API of models `hub/<name>`"),
  ASSIST_TOKEN: text("access token of the provider of models `assist/<name>`; `debate login` can store one"),
  ASSIST_TOKEN_FILE: text("file for the token of `debate login`; empty: below the user's config directory"),
  ASSIST_BASE_URL: url("base URL of the chat completions API of models `assist/<name>`"),
  ASSIST_SESSION_URL: safeUrl(
    "URL that issues session tokens for `assist`; empty: use the access token itself",
  ),
  ASSIST_DEVICE_CODE_URL: safeUrl("URL that starts the device flow of `assist` (RFC 8628)"),
  ASSIST_DEVICE_TOKEN_URL: safeUrl("URL that issues the token of the device flow"),
  ASSIST_CLIENT_ID: text("client ID of your OAuth application for the device flow"),
  ASSIST_SCOPE: text("scope that the device flow requests"),
  ASSIST_HEADERS: headers.default({}).describe("extra request headers for `assist`, as a JSON object"),
  MODEL_ALLOW_HTTP: flag(false, "allow http: base URLs beyond loopback, which send tokens unencrypted"),
  REPLAY_DIR: text("directory of your scenarios for models `replay/<scenario>`"),

  DIAGNOSTIC_MODEL: text("model of the diagnostic agent and its rebuttal", "assist/gpt-4o"),
  SKEPTIC_MODEL: text("model of the skeptic", "assist/claude-sonnet-4.6"),
  MODERATOR_MODEL: text("model of the moderator", "assist/claude-sonnet-4.6"),
  SUMMARY_MODEL: text("model that summarizes older rounds; empty: the moderator's model"),
  DIAGNOSTIC_REASONING_EFFORT: effort("diagnostic agent"),
  SKEPTIC_REASONING_EFFORT: effort("skeptic"),
  MODERATOR_REASONING_EFFORT: effort("moderator"),
  MODEL_TIMEOUT_SECONDS: whole(1, 3600, 600, "time limit of one model call, in seconds"),
  MODEL_IDLE_SECONDS: whole(
    1,
    3600,
    120,
    "longest silence of a model, before or during its reply, in seconds",
  ),
  MODEL_MAX_OUTPUT_TOKENS: whole(
    256,
    1_000_000,
    16_384,
    "maximum tokens of a reply, with the model's reasoning",
  ),
  MODEL_PRICES_FILE: text("JSON file of prices in US dollars per million tokens: `{model: {input, output}}`"),

  DEBATE_MODE: z.enum(RUN_MODES).default("debate").describe(
    "`debate`, or `sample_then_debate`: independent diagnoses first, then a debate where they differ",
  ),
  SAMPLES: whole(2, 5, 3, "number of independent diagnoses"),
  SAMPLE_MODEL: text("model of the independent diagnoses; empty: the diagnostic agent's model"),
  MAX_ROUNDS: whole(1, 10, 4, "maximum number of rounds"),
  CONFIDENCE_THRESHOLD: share(0.8, "minimum confidence of a diagnosis, 0 to 1"),
  COMPRESS_HISTORY: flag(true, "summarize older rounds from round 3 on"),
  EARLY_OUT_ENABLED: flag(true, "let a debate end before all rounds are used"),
  EARLY_OUT_THRESHOLD: share(0.9, "minimum confidence for an early end, 0 to 1"),
  RUN_TIMEOUT_SECONDS: whole(0, 86_400, 0, "time limit of a run with all waits, in seconds; 0: none"),
  PROMPT_TEMPLATE: z.string().default("default").describe("name of the prompt template"),
  PROMPT_LANGUAGE: z.string().default("en").describe("language of the prompt template, en or es"),
  PROMPTS_DIR: text("directory of your prompt templates; empty: below the user's data directory"),

  TOOLS_ENABLED: flag(true, "let agents use tools"),
  ENABLED_TOOLS: list("tools that agents may use; empty: all"),
  MAX_TOOL_CALLS_PER_AGENT: whole(1, 50, 8, "maximum number of tool calls per agent and round"),
  MAX_CONSECUTIVE_ERRORS: whole(1, 10, 3, "failed tool batches before an agent must answer without tools"),
  TOOL_APPROVAL_REQUIRED: flag(true, "web runs: require approval for APPROVAL_REQUIRED_TOOLS"),
  APPROVAL_REQUIRED_TOOLS: list("tools that wait for the operator's approval", [
    "run_ssh_command",
    "run_local_command",
    "run_kubectl",
    "run_db_explain",
  ]),
  APPROVAL_TIMEOUT_SECONDS: whole(1, 3600, 300, "time limit for the approval of a tool call, in seconds"),
  COMMENT_TIMEOUT_SECONDS: whole(1, 7200, 600, "time limit for a comment between rounds, in seconds"),
  HTTP_ALLOWED_HOSTS: list(
    "hosts and networks (CIDR) that http_get may reach; `public`: the whole Internet; empty: none",
  ),
  PROMETHEUS_URL: url("base URL for query_prometheus"),
  LOKI_URL: url("base URL for query_loki"),
  ELASTICSEARCH_URL: url("base URL for query_elasticsearch"),
  DATABASE_URL: text("PostgreSQL URL for run_db_explain; use an account that can only read"),
  MCP_SERVERS_FILE: text(
    "JSON file of MCP servers with tools for agents; it may refer to variables such as ${MCP_TOKEN}",
  ),
  SSH_DEFAULT_USER: text("default account for run_ssh_command; empty: the current user's name"),
  SSH_KEY_PATH: text("private key for run_ssh_command; empty: the SSH agent and the standard keys"),
  SSH_KNOWN_HOSTS: text("known_hosts file for run_ssh_command; empty: the current user's file"),
  SSH_CONNECT_TIMEOUT: whole(1, 120, 15, "connect timeout of run_ssh_command, in seconds"),

  WEB_HOST: z.string().min(1).default("127.0.0.1").describe("address of the web server"),
  WEB_PORT: whole(1, 65_535, 8000, "port of the web server"),
  WEB_USERNAME: z.string().regex(/^[^:]*$/, "must not contain a colon").default("").describe(
    "user name for HTTP Basic authentication; set WEB_PASSWORD too",
  ),
  WEB_PASSWORD: text("password for HTTP Basic authentication; set WEB_USERNAME too"),
  WEB_ALLOW_OPEN: flag(false, "let the web server listen beyond loopback without authentication"),
  WEB_URL: url("URL of the page for links in messages; empty: from WEB_HOST and WEB_PORT"),
  MONITOR_LISTEN: url(
    "`address:port` of `/healthz`, `/readyz` and `/metrics`, without authentication: use loopback or a private " +
      "network; empty: none",
    (value) => value.includes(":"),
    "must be address:port, such as 127.0.0.1:9190",
  ),
  ALERT_SECRET: z.string().refine(
    (value) => value === "" || (value.length >= 24 && new Set(value).size >= 8),
    "must have 24 characters or more, 8 of them different: use the output of openssl rand -hex 24",
  )
    .default("").describe(
      "random secret of senders of POST /api/alerts, 24 characters or more; empty: the route is off",
    ),
  ALERT_MAX_RUNS: whole(1, 20, 2, "maximum number of runs of alerts at the same time"),
  ALERT_APPROVALS: flag(false, "let runs of alerts request approvals, with messages to ALERT_ANSWER_URL"),
  ALERT_ANSWER_URL: safeUrl("webhook that receives the answer of each alert; empty: none"),
  ALERT_ANSWER_FORMAT: z.enum(["slack", "mattermost", "teams", "webhook"]).default("slack").describe(
    "format for ALERT_ANSWER_URL",
  ),
  MAX_UPLOAD_BYTES: whole(1, 1_073_741_824, 10_485_760, "maximum size of an uploaded file, in bytes"),
  ALLOWED_PROJECT_ROOTS: list("directories that project context may come from; empty: the current directory"),
  DATA_DIR: text("directory of run records and audit.jsonl; empty: below the user's data directory"),
  RETENTION_DAYS: whole(0, 36_500, 0, "days until ended runs are deleted; audit.jsonl stays; 0: never"),
  REQUESTS_CA_BUNDLE: text("PEM file of the CAs that models and tools trust"),
  SSL_CERT_FILE: text("PEM file of CAs; used if REQUESTS_CA_BUNDLE is empty"),
  LOG_LEVEL: z.enum(LOG_LEVELS).default("INFO").describe("minimum level of log messages"),
}).superRefine((given, context) => {
  if (given.MODEL_ALLOW_HTTP) return;
  const named = Object.entries(given.MODEL_PROVIDERS).map(([name, { base_url }]) =>
    [["MODEL_PROVIDERS", name, "base_url"], base_url] as const
  );
  const urls = (["HUB_BASE_URL", "ASSIST_BASE_URL"] as const).map((name) => [[name], given[name]] as const);
  for (const [path, value] of [...urls, ...named]) {
    if (!isHttpUrl(value) || isSafeUrl(value)) continue;
    context.addIssue({
      code: "custom",
      path: [...path],
      message: "must be an https: URL, or http: on loopback; to send tokens and prompts unencrypted, " +
        "set MODEL_ALLOW_HTTP=true",
    });
  }
}).superRefine((given, context) => {
  for (const name of MODELS) {
    const names = Object.keys(given.MODEL_PROVIDERS);
    if (given[name] === "" || splitModelId(given[name], names) !== undefined) continue;
    context.addIssue({ code: "custom", path: [name], message: describeModelIds(names) });
  }
}).superRefine(({ WEB_USERNAME, WEB_PASSWORD }, context) => {
  if ((WEB_USERNAME === "") === (WEB_PASSWORD === "")) return;
  const missing = WEB_USERNAME === "" ? "WEB_USERNAME" : "WEB_PASSWORD";
  context.addIssue({
    code: "custom",
    path: [missing],
    message: "must be set too: WEB_USERNAME and WEB_PASSWORD work only together",
  });
});

/** Variables of other programs with the same meaning, used if our name is not set. */
const ALIASES: Readonly<Record<string, string>> = {
  HUB_TOKEN: "GITHUB_TOKEN",
  HUB_BASE_URL: "GITHUB_MODELS_BASE_URL",
  ASSIST_TOKEN: "COPILOT_TOKEN",
  ASSIST_TOKEN_FILE: "COPILOT_TOKEN_FILE",
};

const VARIABLES = z.toJSONSchema(settingsSchema, { io: "input", unrepresentable: "any" }).properties ?? {};

export const ENV_NAMES: readonly string[] = [
  ...Object.keys(VARIABLES),
  ...Object.values(ALIASES),
  ...["HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"],
];

/** Loads the settings and fills in default paths. Unknown names are ignored. */
export function loadSettings({ env, dotEnv = "", workingFolder }: {
  /** The environment of the process, which takes precedence. An empty variable counts as unset. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly dotEnv?: string;
  readonly workingFolder: string;
}): Settings {
  const file = parseEnv(dotEnv);
  const values: Record<string, unknown> = {};
  for (const [name, shape] of Object.entries(VARIABLES)) {
    const alias = ALIASES[name];
    const value = env[name] || file[name] || (alias === undefined ? "" : env[alias] || file[alias]);
    if (value && typeof shape === "object") values[name] = fromText(name, value, shape.type);
  }
  const checked = parseConfig({
    ...{ what: "settings", schema: settingsSchema, source: "environment and .env" },
    text: JSON.stringify(values),
  });
  const given = (names: readonly string[]) =>
    Object.fromEntries(names.flatMap((name) => {
      const value = env[name] || file[name];
      return value ? [[name, value]] : [];
    }));
  const keys = Object.values(checked.MODEL_PROVIDERS).flatMap(({ key_variable: name }) => name ?? []);
  const named = Object.keys({ ...file, ...env })
    .filter((name) => name.startsWith(MCP_PREFIX) && !(name in VARIABLES));
  return {
    ...checked,
    ...resolvePaths(checked, env, workingFolder),
    MODEL_KEYS: given(keys),
    MCP_VARIABLES: given(named),
  };
}

/** The value of a variable in the type of its setting; an unusable text stays, and the schema rejects it. */
function fromText(name: string, value: string, type: unknown): unknown {
  const trimmed = value.trim();
  switch (type) {
    case "integer":
    case "number":
      return /^[+-]?(?:\d+(?:\.\d*)?|\.\d+)$/.test(trimmed) ? Number(trimmed) : value;
    case "boolean":
      if (/^(?:1|true|yes|on)$/i.test(trimmed)) return true;
      return /^(?:0|false|no|off)$/i.test(trimmed) ? false : value;
    case "array":
      return trimmed.split(",").map((entry) => entry.trim()).filter((entry) => entry !== "");
    case "object":
      return parseConfig({
        what: name,
        schema: z.looseObject({}),
        source: "environment and .env",
        text: trimmed,
      });
    default:
      return name === "LOG_LEVEL" ? trimmed.toUpperCase().replace(/^WARN$/, "WARNING") : value;
  }
}

function resolvePaths(
  settings: Omit<Settings, "MODEL_KEYS" | "MCP_VARIABLES">,
  env: Readonly<Record<string, string | undefined>>,
  workingFolder: string,
) {
  const below = (xdg: string | undefined, inHome: string, path: string) => {
    if (xdg?.startsWith("/")) return `${xdg}/debate/${path}`;
    if (env.HOME) return `${env.HOME}/${inHome}/debate/${path}`;
    throw new AppError(
      "invalid_config",
      "Cannot load settings: HOME is not set; set it, or DATA_DIR, PROMPTS_DIR and ASSIST_TOKEN_FILE",
    );
  };
  const roots = settings.ALLOWED_PROJECT_ROOTS;
  return {
    DATA_DIR: settings.DATA_DIR || below(env.XDG_DATA_HOME, ".local/share", "runs"),
    PROMPTS_DIR: settings.PROMPTS_DIR || below(env.XDG_DATA_HOME, ".local/share", "prompts"),
    ASSIST_TOKEN_FILE: settings.ASSIST_TOKEN_FILE ||
      below(env.XDG_CONFIG_HOME, ".config", "assist_token"),
    ALLOWED_PROJECT_ROOTS: roots.length > 0 ? roots : [workingFolder],
  };
}
