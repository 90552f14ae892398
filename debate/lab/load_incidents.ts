import { AppError } from "@gateway/shared/errors";
import { relative, resolve } from "node:path";
import { type Incident, type Names, parseIncident, type RecordedAnswer } from "./incident.ts";
import { parseStandardJson } from "@gateway/shared/json";
import * as z from "@zod/zod";
import { normalName } from "../engine/graph/claim.ts";

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

/** Reads cases of Cloud-OpsBench. No data of the data set is part of this program. */

/** The two files of a case. */
export interface CloudCase {
  /** Where it is in the data set, such as `boutique/admission/1`. */
  readonly path: string;
  readonly metadata: string;
  readonly toolCache: string;
}

const word = z.string().trim().min(1).max(200);

const metadataSchema = z.looseObject({
  namespace: word.default("default"),
  query: z.string().min(1).max(4000),
  result: z.looseObject({ fault_object: word, root_cause: word }),
});

const cacheSchema = z.record(z.string(), z.unknown());

/**
 * Reads cases. The names to choose from are those of all cases that are read together: read a whole category,
 * so that there is a choice.
 */
export function importCloudCases(cases: readonly CloudCase[]): readonly Incident[] {
  const read = cases.map(readCase);
  const components = new Spellings(read.map(({ component }) => component));
  const states = new Spellings(read.map(({ cause }) => cause));
  return read.map(({ id, query, namespace, component, cause, tools }) => ({
    id,
    topic: query,
    context: `A Kubernetes cluster; the application runs in the namespace ${namespace}.`,
    components: components.names,
    states: states.names,
    tools,
    // Its kinds of faults are others; the state says what happened.
    truth: { component: components.of(component), fault: "configuration", path: [states.of(cause)] },
    anyFault: true,
    proof: [],
    rivals: [],
  }));
}

function readCase({ path, metadata, toolCache }: CloudCase) {
  const facts = metadataSchema.safeParse(parse(metadata, path));
  const cache = cacheSchema.safeParse(parse(toolCache, path));
  if (!facts.success || !cache.success) throw invalid(path, "it is not a case of Cloud-OpsBench");
  const { namespace, query, result } = facts.data;
  const tools = Object.entries(cache.data).flatMap(([key, answer]) => readAnswer(key, answer) ?? []);
  if (tools.length === 0) throw invalid(path, "its tool cache is empty");
  return {
    id: path.replace(/[^\w-]+/g, ".").replace(/^\.|\.$/g, "").slice(-80),
    path,
    query,
    namespace,
    component: result.fault_object,
    cause: result.root_cause,
    tools,
  };
}

function readAnswer(key: string, answer: unknown): RecordedAnswer | undefined {
  const [, tool = "", json = ""] = /^(\w{1,64}):(\{[^]*\})$/.exec(key) ?? [];
  if (tool === "") return undefined;
  let args: unknown;
  try {
    args = parseStandardJson(json);
  } catch {
    return undefined;
  }
  if (typeof args !== "object" || args === null || Array.isArray(args)) return undefined;
  return { tool, args: { ...args }, result: typeof answer === "string" ? answer : JSON.stringify(answer) };
}

/** What is written in two ways is one thing, under the name that came first. */
class Spellings {
  readonly #first = new Map<string, string>();

  constructor(all: readonly string[]) {
    for (const each of all) this.#first.set(normalName(each), this.of(each));
  }

  get names(): Names {
    return Object.fromEntries([...this.#first.values()].map((each) => [each, []]));
  }

  of(name: string): string {
    return this.#first.get(normalName(name)) ?? name;
  }
}

function parse(text: string, path: string): unknown {
  try {
    return parseStandardJson(text);
  } catch {
    throw invalid(path, "a file of it is not JSON");
  }
}
