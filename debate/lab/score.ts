/** Only claims are compared. Prose, lists and denials have no score. */
import { normalName, readClaim } from "../engine/graph/claim.ts";
import type { Incident } from "./incidents.ts";

/** Compares the text of a hypothesis with the truth. `problem` is the reason if an answer is not comparable. */
export function scoreAnswer(
  answer: string,
  { truth, components, states }: Pick<Incident, "components" | "states" | "truth">,
) {
  const score = (component: boolean, fault: boolean, path: boolean, problem: string | null = null) => (
    { component, fault, path, right: component && fault && path, problem }
  );
  const reading = readClaim(answer);
  if (reading.kind === "none") return score(false, false, false, `claim ${reading.reason}`);
  const { claim } = reading;
  if (truth.fault === "none" || claim.fault === "none") {
    // The answer that nothing is broken must not name a component.
    const isNone = (text: string) => ["none", "ninguno", "ninguna"].includes(normalName(text));
    if (claim.fault !== truth.fault) return score(false, false, false);
    return score(isNone(claim.component), true, claim.path.every(isNone));
  }
  const name = resolve(claim.component, components);
  const path = isPath(claim.path.map((state) => resolve(state, states)), truth.path);
  const problem = name === undefined ? "unknown component" : null;
  return score(name === truth.component, claim.fault === truth.fault, path, problem);
}

/** Finds the ID of a name. The whole name is compared, so a list of all names matches no ID. */
function resolve(said: string, names: Incident["states"]): string | undefined {
  const name = normalName(said);
  return Object.entries(names).find(([id, others]) =>
    [id, ...others].some((each) => normalName(each) === name)
  )
    ?.[0];
}

/** Compares both ends and the order. Inner states may be missing, but no state may be added. */
function isPath(said: readonly (string | undefined)[], truth: readonly string[]): boolean {
  const places = said.map((state) => state === undefined ? -1 : truth.indexOf(state));
  if (truth.length === 0) return said.length === 0;
  const rises = places.every((place, index) => index === 0 || place > (places[index - 1] ?? -1));
  return rises && places[0] === 0 && places.at(-1) === truth.length - 1;
}
