import { AppError } from "@gateway/shared/errors";
import { dirname } from "node:path";
import { ENV_NAMES, type Settings } from "./settings/config.ts";
import { TOOL_ENV_NAMES } from "./tools/catalogue.ts";
import { PROGRAM_RULES } from "./tools/program_rules.ts";

/**
 * The folders and files that the settings name, and `.env`; writing to DATA_DIR and to the folder of the
 * stored token; the programs of the enabled tools. `http_get` and the names of model servers need the whole
 * network; what they may reach is decided by the tools' own guard.
 */
export function serveFlags(
  settings: Settings,
  { workingFolder }: { readonly workingFolder: string },
): readonly string[] {
  const read = [
    `${workingFolder}/.env`,
    settings.DATA_DIR,
    settings.PROMPTS_DIR,
    settings.ASSIST_TOKEN_FILE,
    dirname(settings.ASSIST_TOKEN_FILE),
    settings.REPLAY_DIR,
    settings.MODEL_PRICES_FILE,
    settings.REQUESTS_CA_BUNDLE,
    settings.SSL_CERT_FILE,
    ...settings.ALLOWED_PROJECT_ROOTS,
  ].filter((path) => path !== "");
  const write = [settings.DATA_DIR, dirname(settings.ASSIST_TOKEN_FILE)];
  const programs = programsOf(settings);
  return [
    "--no-prompt",
    "--cached-only",
    `--allow-read=${joinPaths(read)}`,
    `--allow-write=${joinPaths(write)}`,
    "--allow-net",
    `--allow-env=${[...new Set([...ENV_NAMES, ...TOOL_ENV_NAMES])].join(",")}`,
    "--ignore-env",
    ...(programs.length === 0 ? [] : [`--allow-run=${programs.join(",")}`]),
  ];
}

function joinPaths(paths: readonly string[]): string {
  const wrong = paths.find((path) => path.includes(","));
  if (wrong === undefined) return paths.join(",");
  throw new AppError(
    "invalid_config",
    `Cannot permit the path ${JSON.stringify(wrong)}: it holds a comma; move or rename it`,
  );
}

const PROGRAMS_OF_TOOLS: Readonly<Record<string, readonly string[]>> = {
  git_recent_changes: ["git"],
  run_local_command: Object.keys(PROGRAM_RULES),
  run_ssh_command: ["ssh"],
  run_kubectl: ["kubectl"],
};

function programsOf({ TOOLS_ENABLED, ENABLED_TOOLS }: Settings): readonly string[] {
  if (!TOOLS_ENABLED) return [];
  const programs = Object.entries(PROGRAMS_OF_TOOLS).flatMap(([tool, names]) =>
    ENABLED_TOOLS.length === 0 || ENABLED_TOOLS.includes(tool) ? names : []
  );
  // A program that hangs has to be ended.
  return programs.length === 0 ? [] : [...new Set([...programs, "kill"])];
}
