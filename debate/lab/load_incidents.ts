/**
 * Incidents of a folder: files `*.yaml` in the form of the built-in ones, or cases of Cloud-OpsBench.
 *
 * @module
 */
import { AppError } from "@gateway/shared/errors";
import { relative, resolve } from "node:path";
import { type CloudCase, importCloudCases } from "./cloud_opsbench.ts";
import { type Incident, parseIncident } from "./incident.ts";

const MAX_DEPTH = 6;
const MAX_CASES = 2000;
const MAX_BYTES = 50_000_000;

/** Loads them, in the order of their paths. @throws {AppError} `invalid_config` that names the file */
export async function loadIncidents(folder: string, workingFolder: string): Promise<readonly Incident[]> {
  const root = resolve(workingFolder, folder);
  const found: { readonly yaml: string[]; readonly cases: string[] } = { yaml: [], cases: [] };
  await look(root, 0, found, folder);
  const cases: CloudCase[] = [];
  for (const path of found.cases.toSorted()) {
    cases.push({
      path: relative(root, path) || folder,
      metadata: await read(`${path}/metadata.json`),
      toolCache: await read(`${path}/tool_cache.json`),
    });
  }
  const own: Incident[] = [];
  for (const path of found.yaml.toSorted()) own.push(parseIncident(await read(path), relative(root, path)));
  const all = [...own, ...importCloudCases(cases)];
  const twice = all.find(({ id }, index) => all.findIndex((each) => each.id === id) !== index);
  if (twice !== undefined) throw invalid(folder, `two incidents are called ${JSON.stringify(twice.id)}`);
  if (all.length === 0) {
    throw invalid(folder, "it has no *.yaml, and no folder with metadata.json and tool_cache.json");
  }
  return all;
}

/** Links are not followed: they could lead anywhere, and in circles. */
async function look(
  path: string,
  depth: number,
  found: { readonly yaml: string[]; readonly cases: string[] },
  shown: string,
): Promise<void> {
  const names = new Set<string>();
  try {
    for await (const { name, isFile, isDirectory } of Deno.readDir(path)) {
      if (isFile) names.add(name);
      if (isDirectory && depth < MAX_DEPTH && !name.startsWith(".")) {
        await look(`${path}/${name}`, depth + 1, found, shown);
      }
    }
  } catch (cause) {
    if (cause instanceof AppError) throw cause;
    throw invalid(
      shown,
      cause instanceof Deno.errors.NotFound ? "there is no such folder" : "it cannot be read",
    );
  }
  if (names.has("metadata.json") && names.has("tool_cache.json")) found.cases.push(path);
  for (const name of names) if (name.endsWith(".yaml")) found.yaml.push(`${path}/${name}`);
  if (found.cases.length + found.yaml.length > MAX_CASES) {
    throw invalid(shown, `it has more than ${MAX_CASES} incidents`);
  }
}

async function read(path: string): Promise<string> {
  const { size } = await Deno.stat(path);
  if (size > MAX_BYTES) throw invalid(path, `it is larger than ${MAX_BYTES} bytes`);
  return await Deno.readTextFile(path);
}

function invalid(source: string, problem: string): AppError {
  return new AppError("invalid_config", `Cannot load incidents ${JSON.stringify(source)}: ${problem}`);
}
