/** Reproducible random numbers: equal seeds give equal series. */
export interface Dice {
  /** A whole number from 0 up to and without `bound`. */
  below(bound: number): number;
  pick<T>(list: readonly T[]): T;
}

/** Random numbers for one series (mulberry32). */
export function createDice(seed: number): Dice {
  let state = seed >>> 0;
  const below = (bound: number): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) % bound;
  };
  return { below, pick: (list) => list[below(list.length)]! };
}
