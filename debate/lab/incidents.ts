import * as z from "@zod/zod";
import { parseAllDocuments } from "yaml";
import { FAULT_KINDS } from "../engine/graph/claim.ts";
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

export function builtinIncidents(): readonly Incident[] {
  return [parseAllDocuments(BUILTIN)].flat().map((document) => schema.parse(document.toJS()));
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
