/** The series of texts that the firewall is held to: made, asked about, counted. */
import { type Accepted, believe, findStubNames, isFunctionName } from "./belief.ts";
import { createDice } from "./dice.ts";
import { createGrammar } from "./grammar.ts";
import { createMutator } from "./mutation.ts";

export interface SeriesOptions {
  readonly seed: number;
  /** How many different accepted texts there are to be. */
  readonly count: number;
  readonly corpus: readonly string[];
}

export interface Tally {
  readonly made: { corpus: number; grammar: number; mutation: number };
  readonly accepted: { corpus: number; grammar: number; mutation: number };
  /** Accepted texts that had come before. */
  repeated: number;
  /** Accepted, but not given to a shell: see {@linkcode mayHarm}. */
  withheld: number;
  /** Accepted, but left out for its cost: see {@linkcode KEPT_ODD}. */
  passedOver: number;
  readonly refused: Map<string, number>;
}

/** A series; `texts` can be walked once, and `tally` is complete when it is at its end. */
export interface Series {
  readonly texts: Iterable<Accepted>;
  readonly tally: Tally;
}

// No seed names such a path. Should a mutation, and a bug, ever run one, it would be the machine's program.
function mayHarm(text: string): boolean {
  return /\/['"]*(?:bin|sbin|usr|lib|opt|proc|dev|sys|etc|root|home|tmp)\b/.test(text);
}

// Names that need an executable as their stub (`p-a`, `=pa`) take two hundred times as long to run.
const KEPT_ODD = 8;

function isCheap(accepted: Accepted): boolean {
  return findStubNames(accepted).every(isFunctionName);
}

/** The corpus first, then grammar and mutation in turn, until there are enough. */
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

/** The figures of a series in one line. */
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
