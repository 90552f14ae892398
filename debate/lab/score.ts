/** Claims are compared as data. Prose, lists and denials earn nothing. */
import { type Claim, normalName, readClaim } from "../engine/graph/claim.ts";
import type { Cause, Incident, Names } from "./incident.ts";

/** How an answer compares with the truth. */
interface Score {
  readonly component: boolean;
  readonly fault: boolean;
  /** From the right beginning to the right end, in the right order, through nothing that did not happen. */
  readonly path: boolean;
  readonly right: boolean;
  /** Why the answer claims nothing that can be compared; `null` when it does. */
  readonly problem: string | null;
}

const NOTHING = { component: false, fault: false, path: false, right: false } as const;

/** Compares the text of a hypothesis with the truth of an incident. */
export function scoreAnswer(
  answer: string,
  incident: Pick<Incident, "components" | "states" | "truth" | "anyFault">,
): Score {
  const reading = readClaim(answer);
  if (reading.kind === "none") return { ...NOTHING, problem: `claim ${reading.reason}` };
  const { truth } = incident;
  const { claim } = reading;
  if (truth.fault === "none" || claim.fault === "none") return scoreNoFault(claim, truth);
  const name = resolve(claim.component, incident.components);
  const component = name === truth.component;
  const fault = incident.anyFault === true || claim.fault === truth.fault;
  const path = isPath(claim.path.map((state) => resolve(state, incident.states)), truth.path);
  const problem = name === undefined ? "unknown component" : null;
  return { component, fault, path, right: component && fault && path, problem };
}

/** Whoever says that nothing is broken must not name something broken as well. */
function scoreNoFault(claim: Claim, truth: Cause): Score {
  const isNone = (text: string) => ["none", "ninguno", "ninguna"].includes(normalName(text));
  if (claim.fault !== "none" || truth.fault !== "none") return { ...NOTHING, problem: null };
  const component = isNone(claim.component);
  const path = claim.path.every(isNone);
  return { component, fault: true, path, right: component && path, problem: null };
}

/** The thing that a name stands for. It is compared whole, so that a list of all names is none of them. */
function resolve(said: string, names: Names): string | undefined {
  const name = normalName(said);
  return Object.entries(names).find(([id, others]) =>
    [id, ...others].some((each) => normalName(each) === name)
  )
    ?.[0];
}

/** States in between may be left out; none may be added, and none may change its place. */
function isPath(said: readonly (string | undefined)[], truth: readonly string[]): boolean {
  const places = said.map((state) => state === undefined ? -1 : truth.indexOf(state));
  if (truth.length === 0) return said.length === 0;
  const rises = places.every((place, index) => index === 0 || place > (places[index - 1] ?? -1));
  return rises && places[0] === 0 && places.at(-1) === truth.length - 1;
}
