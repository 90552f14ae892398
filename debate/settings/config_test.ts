import { AppError } from "@gateway/shared/errors";
import assert from "node:assert/strict";
import { ENV_NAMES, loadSettings } from "./config.ts";

type Env = Readonly<Record<string, string>>;

const load = (env: Env = {}, dotEnv?: string) =>
  loadSettings({
    env: { HOME: "/home/ann", ...env },
    ...(dotEnv === undefined ? {} : { dotEnv }),
    workingFolder: "/work",
  });

function problemOf(env: Env): string {
  try {
    load(env);
  } catch (error) {
    assert.ok(error instanceof AppError && error.code === "invalid_config");
    return error.message;
  }
  return assert.fail("accepted");
}

Deno.test("loadSettings() returns the specified defaults", () => {
  const settings = load();
  assert.equal(settings.MAX_ROUNDS, 4);
  assert.equal(settings.CONFIDENCE_THRESHOLD, 0.8);
  assert.equal(settings.EARLY_OUT_THRESHOLD, 0.9);
  assert.equal(settings.COMPRESS_HISTORY, true);
  assert.equal(settings.EARLY_OUT_ENABLED, true);
  assert.equal(settings.TOOLS_ENABLED, true);
  assert.equal(settings.MAX_TOOL_CALLS_PER_AGENT, 8);
  assert.equal(settings.TOOL_APPROVAL_REQUIRED, true);
  assert.deepEqual(settings.APPROVAL_REQUIRED_TOOLS, [
    "run_ssh_command",
    "run_local_command",
    "run_kubectl",
    "run_db_explain",
  ]);
  assert.equal(settings.APPROVAL_TIMEOUT_SECONDS, 300);
  assert.equal(settings.WEB_HOST, "127.0.0.1");
  assert.equal(settings.WEB_PORT, 8000);
  assert.equal(settings.MAX_UPLOAD_BYTES, 10_485_760);
  assert.equal(settings.SSH_CONNECT_TIMEOUT, 15);
  assert.equal(settings.SUMMARY_MODEL, "");
  assert.deepEqual(settings.ENABLED_TOOLS, []);
  assert.deepEqual(settings.ALLOWED_PROJECT_ROOTS, ["/work"]);
  assert.equal(settings.DATA_DIR, "/home/ann/.local/share/debate/runs");
  assert.equal(settings.PROMPTS_DIR, "/home/ann/.local/share/debate/prompts");
  assert.equal(settings.ASSIST_TOKEN_FILE, "/home/ann/.config/debate/assist_token");
  assert.equal(settings.HUB_BASE_URL, "");
});

Deno.test.each([
  { name: "reads a whole number", env: { MAX_ROUNDS: " 7 " }, expected: { MAX_ROUNDS: 7 } },
  { name: "reads a share", env: { EARLY_OUT_THRESHOLD: ".75" }, expected: { EARLY_OUT_THRESHOLD: 0.75 } },
  { name: "reads on as true", env: { WEB_ALLOW_OPEN: "ON" }, expected: { WEB_ALLOW_OPEN: true } },
  { name: "reads no as false", env: { TOOLS_ENABLED: "no" }, expected: { TOOLS_ENABLED: false } },
  {
    name: "reads a list",
    env: { ENABLED_TOOLS: " http_get, ,query_loki " },
    expected: { ENABLED_TOOLS: ["http_get", "query_loki"] },
  },
  {
    name: "reads headers as JSON",
    env: { ASSIST_HEADERS: '{"X-Team":"sre"}' },
    expected: { ASSIST_HEADERS: Object.assign(Object.create(null), { "X-Team": "sre" }) },
  },
  { name: "reads an empty variable as unset", env: { MAX_ROUNDS: "" }, expected: { MAX_ROUNDS: 4 } },
  {
    name: "uses the default for an empty list of sensitive tools",
    env: { APPROVAL_REQUIRED_TOOLS: "" },
    expected: { APPROVAL_REQUIRED_TOOLS: load().APPROVAL_REQUIRED_TOOLS },
  },
  { name: "ignores unknown names", env: { SOMETHING: "1" }, expected: {} },
  { name: "accepts warn as a log level", env: { LOG_LEVEL: "warn" }, expected: { LOG_LEVEL: "WARNING" } },
  { name: "reads other programs' token names", env: { GITHUB_TOKEN: "a" }, expected: { HUB_TOKEN: "a" } },
  {
    name: "prefers its own token names",
    env: { GITHUB_TOKEN: "a", HUB_TOKEN: "b" },
    expected: { HUB_TOKEN: "b" },
  },
  {
    name: "uses XDG_DATA_HOME",
    env: { XDG_DATA_HOME: "/data" },
    expected: { DATA_DIR: "/data/debate/runs" },
  },
])("loadSettings() $name", ({ env, expected }) => {
  const settings = load(Object.fromEntries(Object.entries(env)));
  assert.deepEqual({ ...settings, ...expected }, settings);
});

Deno.test("loadSettings() prefers the environment to .env, and .env to variables of other programs", () => {
  const dotEnv = 'MAX_ROUNDS=3\n# comment\nexport HUB_TOKEN="from file"\nWEB_PORT=9000 # here\n';
  const settings = load({ MAX_ROUNDS: "5", GITHUB_TOKEN: "ambient" }, dotEnv);
  assert.equal(settings.MAX_ROUNDS, 5);
  assert.equal(settings.HUB_TOKEN, "from file");
  assert.equal(settings.WEB_PORT, 9000);
});

Deno.test.each([
  { name: "rounds beyond 10", env: { MAX_ROUNDS: "11" }, says: /: MAX_ROUNDS: must be at most 10, is 11/ },
  { name: "zero rounds", env: { MAX_ROUNDS: "0" }, says: /MAX_ROUNDS.*at least 1/ },
  { name: "half a round", env: { MAX_ROUNDS: "2.5" }, says: /MAX_ROUNDS.*whole number/ },
  { name: "a share beyond 1", env: { CONFIDENCE_THRESHOLD: "80" }, says: /CONFIDENCE_THRESHOLD.*at most 1/ },
  {
    name: "a share that is not a number",
    env: { CONFIDENCE_THRESHOLD: "NaN" },
    says: /CONFIDENCE_THRESHOLD/,
  },
  { name: "an unknown flag value", env: { TOOLS_ENABLED: "maybe" }, says: /TOOLS_ENABLED.*true or false/ },
  { name: "too many tool calls", env: { MAX_TOOL_CALLS_PER_AGENT: "51" }, says: /at most 50/ },
  {
    name: "an approval wait beyond an hour",
    env: { APPROVAL_TIMEOUT_SECONDS: "3601" },
    says: /at most 3600/,
  },
  { name: "a connect timeout of 0", env: { SSH_CONNECT_TIMEOUT: "0" }, says: /at least 1/ },
  { name: "a port beyond 65535", env: { WEB_PORT: "65536" }, says: /WEB_PORT/ },
  {
    name: "a monitor without address",
    env: { MONITOR_LISTEN: "9190" },
    says: /MONITOR_LISTEN: must be address:port/,
  },
  {
    name: "a short secret of alerts",
    env: { ALERT_SECRET: "0123456789abcdef0123456" },
    says: /24 characters/,
  },
  {
    name: "a monotonous secret of alerts",
    env: { ALERT_SECRET: "abcdefg".repeat(9) },
    says: /8 of them different/,
  },
  { name: "a user without password", env: { WEB_USERNAME: "ann" }, says: /WEB_PASSWORD.*together/ },
  { name: "a password without user", env: { WEB_PASSWORD: "geheim" }, says: /WEB_USERNAME.*together/ },
  {
    name: "a user name with a colon",
    env: { WEB_USERNAME: "a:b", WEB_PASSWORD: "geheim" },
    says: /WEB_USERNAME.*colon/,
  },
  { name: "a model without provider", env: { SKEPTIC_MODEL: "gpt" }, says: /SKEPTIC_MODEL.*hub\/<name>/ },
  { name: "a malformed base URL", env: { HUB_BASE_URL: "models.example" }, says: /HUB_BASE_URL.*URL/ },
  {
    name: "a session URL in clear text",
    env: { ASSIST_SESSION_URL: "http://session.example/token" },
    says: /ASSIST_SESSION_URL.*https/,
  },
  {
    name: "a model server in clear text",
    env: { HUB_BASE_URL: "http://models.example/v1" },
    says: /HUB_BASE_URL: .*https.*MODEL_ALLOW_HTTP=true/,
  },
  {
    name: "a model server that is named like loopback, in clear text",
    env: { ASSIST_BASE_URL: "http://127.0.0.1.models.example" },
    says: /ASSIST_BASE_URL: .*https/,
  },
  { name: "headers that are not JSON", env: { ASSIST_HEADERS: "X: y" }, says: /ASSIST_HEADERS.*line 1/ },
  {
    name: "a header that is no name",
    env: { ASSIST_HEADERS: '{"a b":"c"}' },
    says: /a b.*must be the name of a header/,
  },
  ...[
    {
      name: "a built-in name",
      entry: { hub: { base_url: "https://h/v1" } },
      says: /MODEL_PROVIDERS.hub: the name must/,
    },
    {
      name: "a variable outside the permissions",
      entry: { a: { key_variable: "AWS_KEY" } },
      says: /must be one of/,
    },
    {
      name: "an unencrypted address",
      entry: { a: { base_url: "http://h/v1" } },
      says: /MODEL_ALLOW_HTTP=true/,
    },
    { name: "a password", entry: { a: { base_url: "https://u:p@h/v1" } }, says: /without @/ },
    { name: "a protocol that does not exist", entry: { a: { protocol: "x" } }, says: /a\.protocol: must be/ },
  ].map(({ name, entry, says }) => (
    { name: `a provider with ${name}`, env: { MODEL_PROVIDERS: JSON.stringify(entry) }, says }
  )),
  { name: "a model of no provider", env: { SUMMARY_MODEL: "mine/m" }, says: /SUMMARY_MODEL: must be hub/ },
])("loadSettings() rejects $name", ({ env, says }) => {
  assert.match(problemOf(Object.fromEntries(Object.entries(env))), says);
});

Deno.test.each([
  { name: "over TLS", env: { HUB_BASE_URL: "https://models.example/v1" } },
  {
    name: "on loopback",
    env: { HUB_BASE_URL: "http://localhost:11434/v1", ASSIST_BASE_URL: "http://[::1]:1" },
  },
  {
    name: "where clear text is allowed",
    env: { HUB_BASE_URL: "http://gpu.lan/v1", MODEL_ALLOW_HTTP: "true" },
  },
])("loadSettings() accepts a model server $name", ({ env }) => {
  assert.equal(load(Object.fromEntries(Object.entries(env))).HUB_BASE_URL, env.HUB_BASE_URL);
});

Deno.test("loadSettings() reports all problems together, without secrets", () => {
  const message = problemOf({ MAX_ROUNDS: "99", WEB_PASSWORD: "geheim", HUB_TOKEN: "tok", WEB_PORT: "x" });
  for (const name of ["MAX_ROUNDS", "WEB_PORT"]) assert.ok(message.includes(name), message);
  assert.doesNotMatch(message, /geheim|tok\b/);
});

Deno.test("loadSettings() without HOME requires the directories", () => {
  assert.throws(() => loadSettings({ env: {}, workingFolder: "/" }), { message: /HOME is not set/ });
  const env = { DATA_DIR: "/d", PROMPTS_DIR: "/p", ASSIST_TOKEN_FILE: "/t" };
  assert.equal(loadSettings({ env, workingFolder: "/" }).DATA_DIR, "/d");
});

Deno.test("ENV_NAMES lists every variable that the permissions must allow", () => {
  for (const name of ["HUB_TOKEN", "GITHUB_TOKEN", "HOME", "SSL_CERT_FILE"]) {
    assert.ok(ENV_NAMES.includes(name));
  }
});
