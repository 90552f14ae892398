/**
 * An incident of the benchmark: what the agents are told, what tools answer, and what is true.
 *
 * @module
 */
import { AppError } from "@gateway/shared/errors";
import { parse } from "yaml";
import * as z from "@zod/zod";
import { FAULT_KINDS, type FaultKind, normalName } from "../engine/graph/claim.ts";

/** A cause: where, of which kind, and how it leads to what is seen. */
export interface Cause {
  /** The name in the incident's list; `none` when nothing is broken. */
  readonly component: string;
  readonly fault: FaultKind;
  /** States, from the cause to what is seen. */
  readonly path: readonly string[];
}

export interface Quote {
  /** The number of the answer in the list, from 1. */
  readonly result: number;
  readonly quote: string;
}

/** A wrong cause that somebody could believe. */
export interface Rival extends Cause {
  /** It is what most people would think of first. */
  readonly tempting: boolean;
  readonly for: Quote;
  readonly against: Quote;
}

/** An answer that a tool gave when the incident was recorded. */
export interface RecordedAnswer {
  readonly tool: string;
  readonly args: Readonly<Record<string, unknown>>;
  readonly result: string;
}

export type Names = Readonly<Record<string, readonly string[]>>;

export interface Incident {
  readonly id: string;
  readonly topic: string;
  readonly context: string;
  /** Where the fault could lie; more than one thing of each. */
  readonly components: Names;
  readonly states: Names;
  readonly tools: readonly RecordedAnswer[];
  readonly truth: Cause;
  /** The incident comes from elsewhere, where faults have other kinds: any kind is right, but `none`. */
  readonly anyFault?: true;
  readonly proof: readonly Quote[];
  readonly rivals: readonly Rival[];
}

const text = z.string().trim().min(1);
const cause = { component: text, fault: z.enum(FAULT_KINDS), path: z.array(text) };
const quote = z.strictObject({ result: z.int().min(1), quote: text });
const names = z.record(z.string().regex(/^[a-z0-9][a-z0-9/._-]*$/i), z.array(text));

const schema: z.ZodType<Incident> = z.strictObject({
  id: z.string().regex(/^[\w.-]{1,80}$/),
  topic: text,
  context: text,
  components: names,
  states: names,
  tools: z.array(z.strictObject({
    tool: z.string().regex(/^\w{1,64}$/),
    args: z.record(z.string(), z.unknown()).default({}),
    result: z.string(),
  })).min(1),
  truth: z.strictObject(cause),
  proof: z.array(quote).min(1),
  rivals: z.array(z.strictObject({
    ...cause,
    tempting: z.boolean().default(false),
    for: quote,
    against: quote,
  })),
});

/**
 * Reads an incident: YAML or JSON.
 *
 * @param source the file's name for messages
 * @throws {AppError} `invalid_config`
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
