import { AppError } from "@gateway/shared/errors";
import { parse } from "yaml";
import * as z from "@zod/zod";
import { FAULT_KINDS, normalName } from "../engine/graph/claim.ts";

const text = z.string().trim().min(1);
const cause = { component: text, fault: z.enum(FAULT_KINDS), path: z.array(text) };
const quote = z.strictObject({ result: z.int().min(1), quote: text });
const names = z.record(z.string().regex(/^[a-z0-9][a-z0-9/._-]*$/i), z.array(text));

const causeSchema = z.strictObject(cause);
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
  truth: causeSchema,
  proof: z.array(quote).min(1),
  rivals: z.array(rival),
});

export type Cause = Readonly<z.infer<typeof causeSchema>>;
export type Quote = Readonly<z.infer<typeof quote>>;
export type Rival = Readonly<z.infer<typeof rival>>;
export type RecordedAnswer = Readonly<z.infer<typeof recorded>>;
/** The ids of components or states, each with other names for it. */
export type Names = Readonly<z.infer<typeof names>>;
export type Incident = Readonly<z.infer<typeof schema>> & { readonly anyFault?: true };

/**
 * Reads an incident: YAML or JSON.
 *
 * @param source the file's name for messages
 */
export function parseIncident(textOfFile: string, source: string): Incident {
  let value: unknown;
  try {
    value = parse(textOfFile, { maxAliasCount: 0 });
  } catch (cause) {
    throw invalid(source, cause instanceof Error ? cause.message.split("\n")[0] ?? "" : "not YAML");
  }
  const result = schema.safeParse(value);
  if (!result.success) {
    const [issue] = result.error.issues;
    throw invalid(source, `${issue?.path.join(".") ?? ""} ${issue?.message}`.trim());
  }
  const problem = findProblem(result.data);
  if (problem !== undefined) throw invalid(source, problem);
  return result.data;
}

function findProblem({ components, states, truth, rivals, tools, proof }: Incident): string | undefined {
  for (const each of [components, states]) {
    const all = Object.entries(each).flatMap((
      [name, others],
    ) => [...new Set([name, ...others].map(normalName))]);
    const twice = all.find((name, index) => all.indexOf(name) !== index);
    if (twice !== undefined) return `the name "${twice}" stands for two things`;
  }
  for (const { component, fault, path } of [truth, ...rivals]) {
    if ((fault === "none") !== (component === "none")) return "nothing is broken, or something is";
    if (fault !== "none" && !Object.hasOwn(components, component)) return `no component "${component}"`;
    const unknown = path.find((state) => !Object.hasOwn(states, state));
    if (unknown !== undefined) return `no state "${unknown}"`;
  }
  const quotes = [...proof, ...rivals.flatMap((rival) => [rival.for, rival.against])];
  const missing = quotes.find(({ result }) => tools[result - 1] === undefined);
  return missing === undefined ? undefined : `there is no result ${missing.result}`;
}

function invalid(source: string, problem: string): AppError {
  return new AppError("invalid_config", `Cannot load incident ${JSON.stringify(source)}: ${problem}`);
}

/** The context of a run: what is known, and the form of the answer. */
export function contextOf(incident: Incident): string {
  return [
    incident.context.trim(),
    "",
    "Form of the answer: the Text of every hypothesis begins with one claim, and prose follows it:",
    "{component: <name>; fault: <kind>; path: <state> > <state> > <state>}",
    `Names of components: ${listOf(incident.components)}`,
    `Kinds of faults: ${[...FAULT_KINDS].sort().join(", ")}`,
    `States: ${listOf(incident.states)}`,
    "The path begins with the state that started it and ends with what is complained about; leave out states that did not occur.",
    "If nothing is broken, the claim is {component: none; fault: none}.",
  ].join("\n");
}

function listOf(names: Names): string {
  return Object.keys(names).sort().join(", ");
}

export function formatClaim({ component, fault, path }: Cause): string {
  const steps = path.length === 0 ? "" : `; path: ${path.join(" > ")}`;
  return `{component: ${component}; fault: ${fault}${steps}}`;
}
