import { AppError } from "@gateway/shared/errors";
import * as z from "@zod/zod";
import { readdir } from "node:fs/promises";
import { basename, dirname, join, relative, resolve } from "node:path";
import { parseAllDocuments } from "yaml";
import { FAULT_KINDS, normalName } from "../engine/graph/claim.ts";
import { isObject, parseJson } from "../engine/graph/text.ts";
import BUILTIN from "./incidents.yaml" with { type: "text" };

const text = z.string().trim().min(1);
const cause = { component: text, fault: z.enum(FAULT_KINDS), path: z.array(text) };
const quote = z.strictObject({ result: z.int().min(1), quote: text });
/** IDs of components or states with their other names. */
const names = z.record(z.string().regex(/^[a-z0-9][a-z0-9/._-]*$/i), z.array(text));
const recorded = z.strictObject({
  tool: z.string().regex(/^\w{1,64}$/),
  args: z.record(z.string(), z.unknown()).default({}),
  result: z.string(),
});
const rival = z.strictObject({ ...cause, tempting: z.boolean().default(false), for: quote, against: quote });
const schema = z.strictObject({
  id: z.string().regex(/^[\w.-]{1,80}$/),
  topic: text,
  context: text,
  components: names,
  states: names,
  tools: z.array(recorded).min(1),
  truth: z.strictObject(cause),
  proof: z.array(quote).min(1),
  rivals: z.array(rival),
});

export type Incident = Readonly<z.infer<typeof schema>> & { readonly anyFault?: true };
export type Cause = Incident["truth"];
export type Quote = Incident["proof"][number];
export type RecordedAnswer = Incident["tools"][number];

function invalid(source: string, problem: string): AppError {
  return new AppError("invalid_config", `Cannot load incidents ${JSON.stringify(source)}: ${problem}`);
}

export const builtinIncidents = () => parseIncidents(BUILTIN, "built-in incidents");

/** Reads the documents of a YAML file. @param source name of the file for messages */
function parseIncidents(yaml: string, source: string): readonly Incident[] {
  return [parseAllDocuments(yaml)].flat().map((document) => {
    const [broken] = document.errors;
    if (broken !== undefined) throw invalid(source, broken.message.split("\n")[0] ?? "");
    const { data, error } = schema.safeParse(document.toJS({ maxAliasCount: 0 }));
    const [issue] = error?.issues ?? [];
    const problem = data === undefined
      ? `${issue?.path.join(".")} ${issue?.message}`.trim()
      : findProblem(data);
    if (data === undefined || problem !== undefined) throw invalid(source, problem ?? "");
    return data;
  });
}

function findProblem({ components, states, truth, rivals, tools, proof }: Incident): string | undefined {
  for (const each of [components, states]) {
    const all = Object.entries(each)
      .flatMap(([name, others]) => [...new Set([name, ...others].map(normalName))]);
    const twice = all.find((name, index) => all.indexOf(name) !== index);
    if (twice !== undefined) return `the name "${twice}" has two meanings`;
  }
  for (const { component, fault, path } of [truth, ...rivals]) {
    if ((fault === "none") !== (component === "none")) {
      return "component and fault must both be none, or neither";
    }
    if (fault !== "none" && !Object.hasOwn(components, component)) return `unknown component "${component}"`;
    const unknown = path.find((state) => !Object.hasOwn(states, state));
    if (unknown !== undefined) return `unknown state "${unknown}"`;
  }
  const quotes = [...proof, ...rivals.flatMap((each) => [each.for, each.against])];
  const missing = quotes.find(({ result }) => tools[result - 1] === undefined);
  return missing && `result ${missing.result} does not exist`;
}

/** The context of a run: known facts and the form of the answer. */
export function contextOf({ context, components, states }: Incident): string {
  const listOf = (all: Incident["states"]) => Object.keys(all).sort().join(", ");
  return [
    context.trim(),
    "",
    "Form of the answer: the Text of every hypothesis begins with one claim, and prose follows it:",
    "{component: <name>; fault: <kind>; path: <state> > <state> > <state>}",
    `Names of components: ${listOf(components)}`,
    `Kinds of faults: ${[...FAULT_KINDS].sort().join(", ")}`,
    `States: ${listOf(states)}`,
    "The path begins with the state that started it and ends with what is complained about; leave out states that did not occur.",
    "If nothing is broken, the claim is {component: none; fault: none}.",
  ].join("\n");
}

export function formatClaim({ component, fault, path }: Cause): string {
  const steps = path.length === 0 ? "" : `; path: ${path.join(" > ")}`;
  return `{component: ${component}; fault: ${fault}${steps}}`;
}

const MAX_CASES = 2000;
const MAX_BYTES = 50_000_000;

/** Loads incidents in the order of their paths. @throws {AppError} `invalid_config` with the file */
export async function loadIncidents(directory: string, workingFolder: string): Promise<readonly Incident[]> {
  const root = resolve(workingFolder, directory);
  const files = await findFiles(root).catch((cause) => {
    throw invalid(
      directory,
      cause?.code === "ENOENT" ? "no such directory" : "the directory is not readable",
    );
  });
  const yaml = files.filter((path) => path.endsWith(".yaml"));
  const directories = files.filter((path) => basename(path) === "metadata.json").map((path) => dirname(path))
    .filter((path) => files.includes(`${path}/tool_cache.json`));
  if (yaml.length + directories.length > MAX_CASES) {
    throw invalid(directory, `more than ${MAX_CASES} incidents`);
  }
  const own: Incident[] = [];
  for (const path of yaml) own.push(...parseIncidents(await read(path), relative(root, path)));
  const cases: CloudCase[] = [];
  for (const path of directories) {
    const metadata = await read(`${path}/metadata.json`);
    cases.push({
      path: relative(root, path) || directory,
      metadata,
      toolCache: await read(`${path}/tool_cache.json`),
    });
  }
  const all = [...own, ...importCloudCases(cases)];
  const twice = all.find(({ id }, index) => all.findIndex((each) => each.id === id) !== index);
  if (twice !== undefined) throw invalid(directory, `two incidents have the ID ${JSON.stringify(twice.id)}`);
  if (all.length > 0) return all;
  throw invalid(directory, "no *.yaml, and no directory with metadata.json and tool_cache.json");
}

/** Symbolic links are not followed, because they could leave the directory or form a loop. */
async function findFiles(root: string): Promise<readonly string[]> {
  const entries = await readdir(root, { recursive: true, withFileTypes: true });
  return entries.filter((entry) => entry.isFile()).map(({ parentPath, name }) => join(parentPath, name))
    .filter((path) => !relative(root, path).split("/").slice(0, -1).some((part) => part.startsWith(".")))
    .sort();
}

async function read(path: string): Promise<string> {
  const { size } = await Deno.stat(path);
  if (size > MAX_BYTES) throw invalid(path, `larger than ${MAX_BYTES} bytes`);
  return await Deno.readTextFile(path);
}

/** The two files of a Cloud-OpsBench case and its path in the data set, such as `boutique/admission/1`. */
export type CloudCase = Readonly<Record<"path" | "metadata" | "toolCache", string>>;

const word = z.string().trim().min(1).max(200);
const metadataSchema = z.looseObject({
  namespace: word.default("default"),
  query: z.string().min(1).max(4000),
  result: z.looseObject({ fault_object: word, root_cause: word }),
});

/** Reads cases together. An answer can name the components and states of all of them. */
export function importCloudCases(cases: readonly CloudCase[]): readonly Incident[] {
  const all = cases.map(readCase);
  const components = spellings(all.map(({ result }) => result.fault_object));
  const states = spellings(all.map(({ result }) => result.root_cause));
  return all.map(({ id, query, namespace, result, tools }) => ({
    id,
    topic: query,
    context: `A Kubernetes cluster; the application runs in the namespace ${namespace}.`,
    components: components.names,
    states: states.names,
    tools,
    // Cloud-OpsBench has different kinds of faults, so only component and state are compared.
    truth: {
      component: components.of(result.fault_object),
      fault: "configuration",
      path: [states.of(result.root_cause)],
    },
    anyFault: true,
    proof: [],
    rivals: [],
  }));
}

function readCase({ path, metadata, toolCache }: CloudCase) {
  const parse = (json: string) => parseJson(json) ?? invalidFile();
  const invalidFile = () => {
    throw invalid(path, "a file is not JSON");
  };
  const facts = metadataSchema.safeParse(parse(metadata)).data;
  const cache = parse(toolCache);
  if (facts === undefined || !isObject(cache)) throw invalid(path, "not a case of Cloud-OpsBench");
  const tools = Object.entries(cache).flatMap(([key, answer]) => {
    const [, tool = "", json = ""] = /^(\w{1,64}):(\{[^]*\})$/.exec(key) ?? [];
    const args = parseJson(json);
    const result = typeof answer === "string" ? answer : JSON.stringify(answer);
    return isObject(args) ? [{ tool, args: { ...args }, result }] : [];
  });
  if (tools.length === 0) throw invalid(path, "the tool cache is empty");
  return { ...facts, id: path.replace(/[^\w-]+/g, ".").replace(/^\.|\.$/g, "").slice(-80), tools };
}

/** Maps all spellings of a name to the first spelling. */
function spellings(all: readonly string[]) {
  const first = new Map<string, string>();
  for (const each of all) first.set(normalName(each), first.get(normalName(each)) ?? each);
  return {
    names: Object.fromEntries([...first.values()].map((each) => [each, new Array<string>()])),
    of: (name: string) => first.get(normalName(name)) ?? name,
  };
}
