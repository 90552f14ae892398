import assert from "node:assert/strict";
import { ENV_NAMES, loadSettings } from "./settings/config.ts";
import manifest from "./deno.json" with { type: "json" };
import { serveFlags } from "./permissions.ts";
import { TOOL_ENV_NAMES } from "./tools/catalogue.ts";
import { KEY_VARIABLES } from "./settings/model_providers.ts";
import { PROGRAM_RULES } from "./tools/program_rules.ts";

const PROGRAMS = [...Object.keys(PROGRAM_RULES), "bwrap", "git", "kill", "kubectl", "ssh"];

for (const [name, set] of Object.entries(manifest.permissions)) {
  Deno.test(`the set ${name} allows exactly the variables that are read`, () => {
    const names = new Set([...ENV_NAMES, ...TOOL_ENV_NAMES, ...KEY_VARIABLES, "MCP_*"]);
    assert.deepEqual(set.env.allow, [...names].sort());
  });

  Deno.test(`the set ${name} allows exactly the programs of the tools`, () => {
    assert.deepEqual(set.run, [...PROGRAMS].sort());
  });
}

Deno.test("serveFlags() allows the paths of the settings, and no programs without tools", () => {
  const flags = flagsOf({ DATA_DIR: "/srv/runs", PROMPTS_DIR: "/srv/prompts", TOOLS_ENABLED: "false" });
  assert.ok(flags.includes("--allow-write=/srv/runs,/home/ann/.config/debate"));
  const read = flags.find((flag) => flag.startsWith("--allow-read=")) ?? "";
  assert.deepEqual(read.replace("--allow-read=", "").split(","), [
    "/srv/.env",
    "/srv/runs",
    "/srv/prompts",
    "/home/ann/.config/debate/assist_token",
    "/home/ann/.config/debate",
    "/srv",
  ]);
  assert.ok(!flags.some((flag) => flag.startsWith("--allow-run")));
  assert.ok(flagsOf({ ENABLED_TOOLS: "git_recent_changes" }).includes("--allow-run=git,kill"));
  assert.ok(flagsOf({ ENABLED_TOOLS: "run_kubectl" }, true).includes("--allow-run=kubectl,bwrap,kill"));
  assert.ok(!flagsOf({ ENABLED_TOOLS: "http_get" }, true).some((flag) => flag.startsWith("--allow-run")));
});

Deno.test("serveFlags() allows exactly the key variables of MODEL_PROVIDERS", () => {
  const keysOf = (env: Readonly<Record<string, string>>) =>
    flagsOf(env).find((flag) => flag.startsWith("--allow-env="))?.match(/\w+_API_KEY|MODEL_KEY_\W*\w*/g) ??
      [];
  const entry = (key_variable: string) => ({ base_url: "https://m.example", key_variable });
  assert.deepEqual(keysOf({}), []);
  const MODEL_PROVIDERS = JSON.stringify({ a: entry("OPENAI_API_KEY"), b: entry("MODEL_KEY_B") });
  assert.deepEqual(keysOf({ MODEL_PROVIDERS }), ["OPENAI_API_KEY", "MODEL_KEY_B"]);
});

Deno.test("serveFlags() rejects a path with a comma", () => {
  assert.throws(() => flagsOf({ DATA_DIR: "/srv/runs,/etc" }), {
    code: "invalid_config",
    message: /"\/srv\/runs,\/etc": the path contains a comma/,
  });
});

function flagsOf(env: Readonly<Record<string, string>>, hasSandbox = false): readonly string[] {
  const settings = loadSettings({ env: { HOME: "/home/ann", ...env }, workingFolder: "/srv" });
  return serveFlags(settings, { workingFolder: "/srv", hasSandbox });
}

Deno.test("the container writes only to its volume", () => {
  assert.deepEqual(manifest.permissions.serve.write, ["/data"]);
});
