import { AppError } from "@gateway/shared/errors";
import { dirname } from "node:path";
import { ENV_NAMES, MCP_PREFIX, type Settings } from "./settings/config.ts";
import { programsOf, TOOL_ENV_NAMES } from "./tools/catalogue.ts";
import { SANDBOX_PROGRAM } from "./tools/sandbox.ts";

/**
 * The flags allow reading `.env` and the files and directories of the settings, writing to DATA_DIR and to the
 * directory of the stored token, reading the key variables of MODEL_PROVIDERS, and running the programs of the enabled
 * tools. `http_get` and model servers need
 * the whole network. The tools check each destination themselves.
 */
export function serveFlags(
  settings: Settings,
  { workingFolder, hasSandbox }: { readonly workingFolder: string; readonly hasSandbox: boolean },
): readonly string[] {
  const read = [
    `${workingFolder}/.env`,
    settings.DATA_DIR,
    settings.PROMPTS_DIR,
    settings.ASSIST_TOKEN_FILE,
    dirname(settings.ASSIST_TOKEN_FILE),
    settings.REPLAY_DIR,
    settings.MODEL_PRICES_FILE,
    settings.MCP_SERVERS_FILE,
    settings.REQUESTS_CA_BUNDLE,
    settings.SSL_CERT_FILE,
    ...settings.ALLOWED_PROJECT_ROOTS,
  ].filter((path) => path !== "");
  const write = [settings.DATA_DIR, dirname(settings.ASSIST_TOKEN_FILE)];
  const tools = programsOf(settings);
  // The service kills programs that exceed their time limit.
  const programs = tools.length === 0 ? [] : [...tools, ...(hasSandbox ? [SANDBOX_PROGRAM] : []), "kill"];
  const keyNames = Object.values(settings.MODEL_PROVIDERS).flatMap(({ key_variable: name }) => name ?? []);
  return [
    "--no-prompt",
    "--cached-only",
    `--allow-read=${joinPaths(read)}`,
    `--allow-write=${joinPaths(write)}`,
    "--allow-net",
    `--allow-env=${[...new Set([...ENV_NAMES, ...TOOL_ENV_NAMES, ...keyNames]), `${MCP_PREFIX}*`].join(",")}`,
    "--ignore-env",
    ...(programs.length === 0 ? [] : [`--allow-run=${programs.join(",")}`]),
  ];
}

function joinPaths(paths: readonly string[]): string {
  const wrong = paths.find((path) => path.includes(","));
  if (wrong === undefined) return paths.join(",");
  const text = `Cannot allow access to ${JSON.stringify(wrong)}: the path contains a comma`;
  throw new AppError("invalid_config", `${text}\nfix: rename or move it`);
}
