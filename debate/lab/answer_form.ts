/**
 * How agents are told to state causes, so that these can be compared. All names are listed, in the order of the alphabet,
 * so that the list tells nothing about which of them matter.
 *
 * @module
 */
import { FAULT_KINDS } from "../engine/graph/claim.ts";
import type { Cause, Incident, Names } from "./incident.ts";

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
