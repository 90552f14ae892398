/**
 * Cases of Cloud-OpsBench, each a folder with `metadata.json` (the question and the truth) and `tool_cache.json` (what its
 * tools answered), as incidents. Nothing of the data set is part of this program.
 *
 * @module
 */
import { AppError } from "@gateway/shared/errors";
import { parseStandardJson } from "@gateway/shared/json";
import * as z from "@zod/zod";
import { normalName } from "../engine/graph/claim.ts";
import type { Incident, Names, RecordedAnswer } from "./incident.ts";

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

interface ReadCase {
  readonly id: string;
  readonly path: string;
  readonly query: string;
  readonly namespace: string;
  readonly component: string;
  readonly cause: string;
  readonly tools: readonly RecordedAnswer[];
}

/**
 * Reads cases. The names to choose from are those of all cases that are read together: read a whole category, so that
 * there is a choice.
 *
 * @throws {AppError} `invalid_config` that names the case
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

function readCase({ path, metadata, toolCache }: CloudCase): ReadCase {
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

/** `GetResources:{"resource_type":"pods"}`; other keys are about the recording. */
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

function invalid(path: string, problem: string): AppError {
  return new AppError("invalid_config", `Cannot load case ${JSON.stringify(path)}: ${problem}`);
}
