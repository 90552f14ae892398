import { AppError } from "@gateway/shared/errors";
import { describeReadFailure } from "@gateway/shared/files";
import * as z from "@zod/zod";
import { resolve } from "node:path";
import { parseAllDocuments } from "yaml";
import { FAULT_KINDS, normalName } from "../engine/graph/claim.ts";
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

export type Incident = Readonly<z.infer<typeof schema>>;
export type Cause = Incident["truth"];
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

/** Loads incidents from a YAML file. @throws {AppError} `invalid_config` with the file */
export async function loadIncidents(file: string, workingFolder: string): Promise<readonly Incident[]> {
  const yaml = await Deno.readTextFile(resolve(workingFolder, file)).catch((cause) => {
    throw invalid(file, describeReadFailure(cause));
  });
  const all = parseIncidents(yaml, file);
  const twice = all.find(({ id }, index) => all.findIndex((each) => each.id === id) !== index);
  if (twice !== undefined) throw invalid(file, `two incidents have the ID ${JSON.stringify(twice.id)}`);
  return all;
}
