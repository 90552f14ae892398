import { AppError } from "@gateway/shared/errors";
import { parseConfig } from "@gateway/shared/config";
import { parseStandardJson } from "@gateway/shared/json";
import * as z from "@zod/zod";
import { parseEnv } from "node:util";
import { RUN_MODES } from "../engine/model.ts";

const text = (meaning: string) => z.string().default("").describe(meaning);

const flag = (fallback: boolean, meaning: string) => z.boolean().default(fallback).describe(meaning);

const whole = (min: number, max: number, fallback: number, meaning: string) =>
  z.int().min(min).max(max).default(fallback).describe(meaning);

const share = (fallback: number, meaning: string) =>
  z.number().min(0).max(1).default(fallback).describe(meaning);

const list = (meaning: string, fallback: string[] = []): z.ZodType<readonly string[]> =>
  z.array(z.string()).default(fallback).describe(`${meaning}; comma-separated`);

const model = (fallback: string, meaning: string) =>
  z.string().regex(/^(?:hub|assist|replay)\/./, "must be hub/<name>, assist/<name> or replay/<scenario>")
    .default(fallback).describe(meaning);

const url = (meaning: string, isFine = isHttpUrl, problem = "must be an http: or https: URL") =>
  z.string().refine((value) => value === "" || isFine(value), problem).default("").describe(meaning);

/** A URL to which a long-lived token is sent; may be empty. */
const safeUrl = (meaning: string) => url(meaning, isSafeUrl, "must be an https: URL, or http: on loopback");

export const EFFORTS = ["none", "low", "medium", "high"] as const;

const effort = (role: string) =>
  z.enum(EFFORTS).default("none").describe(`how hard the ${role} is asked to think`);

function isHttpUrl(value: string): boolean {
  return /^https?:\/\//i.test(value) && URL.canParse(value);
}

/** Accepts a URL if nobody on the way can read the request. */
function isSafeUrl(value: string): boolean {
  if (!isHttpUrl(value)) return false;
  const { protocol, hostname } = new URL(value);
  return protocol === "https:" || /^(?:localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(hostname);
}

/** A value for each of the three debaters, whose settings have a prefix. */
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

const LOG_LEVELS = ["DEBUG", "INFO", "WARNING", "ERROR"] as const;

export type LogLevel = (typeof LOG_LEVELS)[number];

/** A writer for each level; those below the least severe one write nothing. */
export function writersFrom(
  least: LogLevel,
  write: (message: string) => void,
): Readonly<Record<LogLevel, (message: string) => void>> {
  const at = (level: LogLevel) => LOG_LEVELS.indexOf(level) >= LOG_LEVELS.indexOf(least) ? write : () => {};
  return { DEBUG: at("DEBUG"), INFO: at("INFO"), WARNING: at("WARNING"), ERROR: at("ERROR") };
}

export type Settings = Readonly<z.infer<typeof settingsSchema>>;

export const settingsSchema = z.strictObject({
  HUB_TOKEN: text("access token of provider A, for models `hub/<name>`"),
  HUB_BASE_URL: url("provider A: base URL of its chat completions API; any compatible server works"),
  ASSIST_TOKEN: text(
    "access token of provider B, for models `assist/<name>`; or use `debate login`, which stores one",
  ),
  ASSIST_TOKEN_FILE: text("provider B: file of the stored token; empty: a file in the user's config folder"),
  ASSIST_BASE_URL: url("provider B: base URL of its chat completions API"),
  ASSIST_SESSION_URL: safeUrl(
    "provider B: URL that gives a short-lived session token for the access token; empty: the access token is used as it is",
  ),
  ASSIST_DEVICE_CODE_URL: safeUrl("provider B: URL that starts the device flow (RFC 8628)"),
  ASSIST_DEVICE_TOKEN_URL: safeUrl("provider B: URL that ends the device flow"),
  ASSIST_CLIENT_ID: text("provider B: client id of your own OAuth application, for the device flow"),
  ASSIST_SCOPE: text("provider B: scope that the device flow asks for"),
  ASSIST_HEADERS: z.record(z.string(), z.string()).default({}).describe(
    "provider B: more request headers; a JSON object",
  ),
  MODEL_ALLOW_HTTP: flag(
    false,
    "HUB_BASE_URL and ASSIST_BASE_URL may be http: beyond loopback; tokens and prompts are then sent unencrypted",
  ),
  REPLAY_DIR: text("folder of scenarios for models `replay/<scenario>`, in addition to the built-in ones"),

  DIAGNOSTIC_MODEL: model("assist/gpt-4o", "model of the diagnostic agent and its rebuttal"),
  SKEPTIC_MODEL: model("assist/claude-sonnet-4.6", "model of the skeptic"),
  MODERATOR_MODEL: model("assist/claude-sonnet-4.6", "model of the moderator"),
  SUMMARY_MODEL: z.union([z.literal(""), model("", "")]).default("").describe(
    "model that summarises old rounds; empty: the moderator's",
  ),
  DIAGNOSTIC_REASONING_EFFORT: effort("diagnostic agent"),
  SKEPTIC_REASONING_EFFORT: effort("skeptic"),
  MODERATOR_REASONING_EFFORT: effort("moderator"),
  MODEL_TIMEOUT_SECONDS: whole(1, 3600, 600, "how long one call of a model may take, in seconds"),
  MODEL_PRICES_FILE: text("JSON file of prices in US dollars per million tokens: `{model: {input, output}}`"),

  DEBATE_MODE: z.enum(RUN_MODES).default("debate").describe(
    "`debate`, or `sample_then_debate`: independent diagnoses first, and a debate only about where they differ",
  ),
  SAMPLES: whole(2, 5, 3, "how many independent diagnoses come first"),
  SAMPLE_MODEL: z.union([z.literal(""), model("", "")]).default("").describe(
    "model of the independent diagnoses, which may be a cheap one; empty: the diagnostic agent's",
  ),
  MAX_ROUNDS: whole(1, 10, 4, "rounds of a debate"),
  CONFIDENCE_THRESHOLD: share(0.8, "the confidence that a diagnosis needs, 0 to 1"),
  COMPRESS_HISTORY: flag(true, "whether older rounds are summarised from round 3 on"),
  EARLY_OUT_ENABLED: flag(true, "whether the debate may end before all rounds are used"),
  EARLY_OUT_THRESHOLD: share(
    0.9,
    "the confidence that the diagnostic agent and the moderator need for an early end, 0 to 1",
  ),
  RUN_TIMEOUT_SECONDS: whole(
    0,
    86_400,
    0,
    "how long a run may take including all waits, in seconds; 0: no limit",
  ),
  PROMPT_TEMPLATE: z.string().default("default").describe("name of the prompt template"),
  PROMPT_LANGUAGE: z.string().default("en").describe("language of the prompt template, en or es"),
  PROMPTS_DIR: text("folder of your own prompt templates; empty: a folder in the user's data folder"),

  TOOLS_ENABLED: flag(true, "whether agents may use tools"),
  ENABLED_TOOLS: list("the tools that agents may use; empty: all"),
  MAX_TOOL_CALLS_PER_AGENT: whole(1, 50, 8, "tool calls of one agent in one round"),
  MAX_CONSECUTIVE_ERRORS: whole(
    1,
    10,
    3,
    "after this many consecutive batches of tool calls with an error, an agent has to answer without tools",
  ),
  TOOL_APPROVAL_REQUIRED: flag(
    true,
    "web runs: whether the tools of APPROVAL_REQUIRED_TOOLS wait for the operator",
  ),
  APPROVAL_REQUIRED_TOOLS: list("tools that wait for the operator", [
    "run_ssh_command",
    "run_local_command",
    "run_kubectl",
    "run_db_explain",
  ]),
  APPROVAL_TIMEOUT_SECONDS: whole(1, 3600, 300, "how long a tool call waits for the operator, in seconds"),
  COMMENT_TIMEOUT_SECONDS: whole(
    1,
    7200,
    600,
    "how long a pause between rounds waits for a comment, in seconds",
  ),
  HTTP_ALLOWED_HOSTS: list("hosts and networks (CIDR) in private address ranges that http_get may reach"),
  PROMETHEUS_URL: url("base URL for query_prometheus"),
  LOKI_URL: url("base URL for query_loki"),
  ELASTICSEARCH_URL: url("base URL for query_elasticsearch"),
  DATABASE_URL: text(
    "PostgreSQL URL for run_db_explain; its account should only be allowed to select from the tables in question",
  ),
  SSH_DEFAULT_USER: text(
    "account for run_ssh_command when a call does not name one; empty: the current user's",
  ),
  SSH_KEY_PATH: text("private key for run_ssh_command; empty: the agent and the standard keys"),
  SSH_KNOWN_HOSTS: text("known_hosts file for run_ssh_command; empty: the user's"),
  SSH_CONNECT_TIMEOUT: whole(1, 120, 15, "how long run_ssh_command waits for a connection, in seconds"),

  WEB_HOST: z.string().min(1).default("127.0.0.1").describe("address of the web server"),
  WEB_PORT: whole(1, 65_535, 8000, "port of the web server"),
  WEB_USERNAME: z.string().regex(/^[^:]*$/, "must not contain a colon").default("").describe(
    "HTTP Basic credentials, together with WEB_PASSWORD",
  ),
  WEB_PASSWORD: text("HTTP Basic credentials, together with WEB_USERNAME"),
  WEB_ALLOW_OPEN: flag(false, "whether the web server may listen beyond loopback without credentials"),
  MAX_UPLOAD_BYTES: whole(1, 1_073_741_824, 10_485_760, "largest uploaded file, in bytes"),
  ALLOWED_PROJECT_ROOTS: list("folders that project context may be read from; empty: the current folder"),
  DATA_DIR: text("folder of run records and audit.jsonl; empty: a folder in the user's data folder"),
  RETENTION_DAYS: whole(
    0,
    36_500,
    0,
    "days after which the server deletes stored runs, by the time at which they ended; audit.jsonl stays; 0: never",
  ),
  REQUESTS_CA_BUNDLE: text("PEM file of CAs that models and tools trust"),
  SSL_CERT_FILE: text("the same, used if REQUESTS_CA_BUNDLE is empty"),
  LOG_LEVEL: z.enum(LOG_LEVELS).default("INFO").describe("the least severe level that is logged"),
}).superRefine((given, context) => {
  if (given.MODEL_ALLOW_HTTP) return;
  for (const name of ["HUB_BASE_URL", "ASSIST_BASE_URL"] as const) {
    const value = given[name];
    if (!isHttpUrl(value) || isSafeUrl(value)) continue;
    context.addIssue({
      code: "custom",
      path: [name],
      message: "must be an https: URL, or http: on loopback: tokens and prompts would be sent unencrypted; " +
        "MODEL_ALLOW_HTTP=true allows it",
    });
  }
}).superRefine(({ WEB_USERNAME, WEB_PASSWORD }, context) => {
  if ((WEB_USERNAME === "") === (WEB_PASSWORD === "")) return;
  const missing = WEB_USERNAME === "" ? "WEB_USERNAME" : "WEB_PASSWORD";
  context.addIssue({
    code: "custom",
    path: [missing],
    message: "must be set too: WEB_USERNAME and WEB_PASSWORD only work together",
  });
});

/** Settings of other programs with the same meaning; used if our own name is not set anywhere. */
const ALIASES: Readonly<Record<string, string>> = {
  HUB_TOKEN: "GITHUB_TOKEN",
  HUB_BASE_URL: "GITHUB_MODELS_BASE_URL",
  ASSIST_TOKEN: "COPILOT_TOKEN",
  ASSIST_TOKEN_FILE: "COPILOT_TOKEN_FILE",
};

const VARIABLES = z.toJSONSchema(settingsSchema, { io: "input", unrepresentable: "any" }).properties ?? {};

const FOLDER_VARIABLES = ["HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"];

export const ENV_NAMES: readonly string[] = [
  ...Object.keys(VARIABLES),
  ...Object.values(ALIASES),
  ...FOLDER_VARIABLES,
];

interface SettingsSources {
  /** The process's environment, which takes precedence. An empty variable counts as unset. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly dotEnv?: string;
  readonly workingFolder: string;
}

/** The checked settings, with default paths filled in. Unknown names are ignored. */
export function loadSettings({ env, dotEnv = "", workingFolder }: SettingsSources): Settings {
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
  return { ...checked, ...resolvePaths(checked, env, workingFolder) };
}

/** A value of the right kind, or else the unchanged text, which the schema then refuses. */
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
      try {
        return parseStandardJson(trimmed);
      } catch {
        return value;
      }
    default:
      return name === "LOG_LEVEL" ? trimmed.toUpperCase().replace(/^WARN$/, "WARNING") : value;
  }
}

function resolvePaths(settings: Settings, env: SettingsSources["env"], workingFolder: string) {
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
