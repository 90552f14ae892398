/** The series of texts that test the firewall: created, evaluated and counted. */
import { type Accepted, believe, findStubNames, isFunctionName } from "./belief.ts";
import { createDice } from "./dice.ts";
import { createGrammar } from "./grammar.ts";
import { createMutator } from "./mutation.ts";

export interface SeriesOptions {
  readonly seed: number;
  /** The required number of different accepted texts. */
  readonly count: number;
  readonly corpus: readonly string[];
}

export interface Tally {
  readonly made: { corpus: number; grammar: number; mutation: number };
  readonly accepted: { corpus: number; grammar: number; mutation: number };
  /** Accepted texts that occurred before. */
  repeated: number;
  /** Accepted texts that are not run in a shell (see {@linkcode mayHarm}). */
  withheld: number;
  /** Accepted texts that were skipped because of their cost (see {@linkcode KEPT_ODD}). */
  passedOver: number;
  readonly refused: Map<string, number>;
}

/** A series. `texts` can be iterated once, and `tally` is complete afterwards. */
export interface Series {
  readonly texts: Iterable<Accepted>;
  readonly tally: Tally;
}

// No seed contains such a path. A mutation and a bug together could run that program of the machine.
function mayHarm(text: string): boolean {
  return /\/['"]*(?:bin|sbin|usr|lib|opt|proc|dev|sys|etc|root|home|tmp)\b/.test(text);
}

// Names that need an executable as their stub (`p-a`, `=pa`) take two hundred times as long to run.
const KEPT_ODD = 8;

function isCheap(accepted: Accepted): boolean {
  return findStubNames(accepted).every(isFunctionName);
}

/** First the corpus, then grammar and mutation alternately, until the count is reached. */
export function createSeries({ seed, count, corpus }: SeriesOptions): Series {
  const tally: Tally = {
    made: { corpus: 0, grammar: 0, mutation: 0 },
    accepted: { corpus: 0, grammar: 0, mutation: 0 },
    repeated: 0,
    withheld: 0,
    passedOver: 0,
    refused: new Map(),
  };
  const dice = createDice(seed);
  const grammar = createGrammar(dice);
  const mutator = createMutator(dice, corpus);
  const seen = new Set<string>();

  function accept(text: string, origin: keyof Tally["made"]): Accepted | undefined {
    tally.made[origin] += 1;
    const belief = believe(text);
    if (belief.kind === "refused") {
      const reason = belief.reason.replace(/".*"/, "…");
      tally.refused.set(reason, (tally.refused.get(reason) ?? 0) + 1);
      return undefined;
    }
    if (seen.has(text)) {
      tally.repeated += 1;
      return undefined;
    }
    if (mayHarm(text)) {
      tally.withheld += 1;
      return undefined;
    }
    if (origin !== "corpus" && !isCheap(belief.accepted) && dice.below(KEPT_ODD) > 0) {
      tally.passedOver += 1;
      return undefined;
    }
    seen.add(text);
    tally.accepted[origin] += 1;
    if (origin !== "corpus") mutator.keep(text);
    return belief.accepted;
  }

  function* walk(): Generator<Accepted> {
    for (const text of corpus) {
      const accepted = accept(text, "corpus");
      if (accepted !== undefined) yield accepted;
    }
    while (seen.size < count) {
      const fromGrammar = accept(grammar(), "grammar");
      if (fromGrammar !== undefined) yield fromGrammar;
      const fromMutation = accept(mutator.mutate(), "mutation");
      if (fromMutation !== undefined) yield fromMutation;
    }
  }
  return { texts: walk(), tally };
}

/** The counts of a series in one line. */
export function describeTally({ made, accepted, repeated, withheld, passedOver, refused }: Tally): string {
  const sum = (numbers: Iterable<number>): number => [...numbers].reduce((total, each) => total + each, 0);
  const parts = (of: Tally["made"]): string =>
    `${sum(Object.values(of))} (${
      Object.entries(of).map(([name, number]) => `${name} ${number}`).join(", ")
    })`;
  const reasons = [...refused].sort(([, left], [, right]) => right - left)
    .map(([reason, number]) => `${reason} ${number}`);
  return `made ${parts(made)}; accepted ${
    parts(accepted)
  }, repeated ${repeated}, withheld ${withheld}, passed over ${passedOver}; ` +
    `refused ${sum(refused.values())} for ${refused.size} reasons (${reasons.join(", ")})`;
}
