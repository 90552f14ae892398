/**
 * "Did you mean": the known name that a misspelled one is closest to.
 *
 * @module
 */

/** The candidate that differs by few letters only, or by case and separators; `undefined` when none is close. */
export function nearMiss(name: string, candidates: readonly string[]): string | undefined {
  const bare = (text: string) => text.toLowerCase().replace(/[-_]/g, "");
  const limit = name.length < 4 ? 1 : 2;
  let best: { readonly candidate: string; readonly distance: number } | undefined;
  for (const candidate of candidates) {
    // Very long names are not worth the quadratic comparison.
    const distance = name.length > 64
      ? Infinity
      : bare(name) === bare(candidate)
      ? 0
      : editDistance(name, candidate);
    if (distance <= limit && distance < (best?.distance ?? Infinity)) best = { candidate, distance };
  }
  return best?.candidate;
}

/** Letters to insert, delete or replace to make one text the other. */
function editDistance(a: string, b: string): number {
  let previous = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 0; i < a.length; i++) {
    const current = [i + 1];
    for (let j = 0; j < b.length; j++) {
      const replace = (previous[j] ?? 0) + (a[i] === b[j] ? 0 : 1);
      current.push(Math.min(replace, (previous[j + 1] ?? 0) + 1, (current[j] ?? 0) + 1));
    }
    previous = current;
  }
  return previous[b.length] ?? 0;
}
