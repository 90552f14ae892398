/**
 * The built-in scenarios, and those of the operator's folder.
 *
 * @module
 */
import { AppError } from "@gateway/shared/errors";
import { join } from "node:path";
import certificateExpired from "./scenarios/certificate_expired.json" with { type: "json" };
import memoryLeak from "./scenarios/memory_leak.json" with { type: "json" };
import slowQuery from "./scenarios/slow_query.json" with { type: "json" };
import { parseScenario, type Scenario } from "./scenario.ts";

const SHIPPED: Readonly<Record<string, unknown>> = {
  certificate_expired: certificateExpired,
  memory_leak: memoryLeak,
  slow_query: slowQuery,
};

/** The form of a name, which cannot be a path. */
const NAME = /^[\w-]{1,64}$/;

/**
 * Loads a scenario. A file of the folder takes precedence over a built-in one.
 *
 * @param folder empty if there is none
 * @throws {AppError} `not_found`, or `invalid_config` with line and reason for each problem of the file
 */
export async function loadScenario(name: string, folder: string): Promise<Scenario> {
  const text = NAME.test(name) ? await readOwn(name, folder) : undefined;
  if (text !== undefined) return parseScenario(text, `${name}.json`);
  if (Object.hasOwn(SHIPPED, name)) return parseScenario(JSON.stringify(SHIPPED[name]), name);
  const known = (await listScenarios(folder)).join(", ");
  throw new AppError("not_found", `There is no scenario ${JSON.stringify(name)}; there are ${known}`);
}

/**
 * The names of all scenarios, sorted. A folder that does not exist contributes none.
 *
 * @throws {AppError} `invalid_config` when the folder cannot be read
 */
export async function listScenarios(folder: string): Promise<readonly string[]> {
  const names = new Set(Object.keys(SHIPPED));
  try {
    for await (const { name } of folder === "" ? [] : Deno.readDir(folder)) {
      const stem = name.replace(/\.json$/, "");
      if (stem !== name && NAME.test(stem)) names.add(stem);
    }
  } catch (error) {
    if (!isMissing(error)) throw unreadable(folder, error);
  }
  return [...names].sort();
}

async function readOwn(name: string, folder: string): Promise<string | undefined> {
  if (folder === "") return undefined;
  try {
    return await Deno.readTextFile(join(folder, `${name}.json`));
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw unreadable(join(folder, `${name}.json`), error);
  }
}

function isMissing(error: unknown): boolean {
  return error instanceof Deno.errors.NotFound || error instanceof Deno.errors.NotADirectory;
}

function unreadable(path: string, cause: unknown): AppError {
  return new AppError("invalid_config", `Cannot read ${JSON.stringify(path)}`, { cause });
}
