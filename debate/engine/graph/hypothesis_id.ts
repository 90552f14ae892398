import { oneLine } from "./text.ts";
import type { Hypothesis } from "./state.ts";

/** The word of a hypothesis marker in English and Spanish, as a part of a pattern. */
export const MARKER_WORD = String.raw`H(?:YPOTHESIS|IP[OÓ]TESIS)`;

/** The link between the word and the ID. A space links only a number, because the word also occurs in ordinary text. */
export const MARKER_LINK = String.raw`(?:[-‐-―]|[ \t](?=(?:H-?)?\d))`;

/** A whole ID, so that a search for `1` does not find `10`. */
export const ID = String.raw`[\p{L}\p{N}_-]{1,40}(?![\p{L}\p{N}_-])`;

export function hypothesisKey(id: string): string {
  return id.normalize("NFC").toLowerCase().replace(/^h[-_]?(?=\d)/, "").replace(/^0+(?=\d)/, "");
}

export function findById<T extends { readonly id: string }>(
  hypotheses: readonly T[],
  id: string,
): T | undefined {
  const key = hypothesisKey(id);
  return hypotheses.find((hypothesis) => hypothesisKey(hypothesis.id) === key);
}

/** The minimum share of common words at which two texts count as the same hypothesis. */
const MIN_LIKENESS = 0.3;

const LEADING_ID = new RegExp(
  String.raw`^[\s"'*_#\[(]{0,6}(?:${MARKER_WORD}(?:${MARKER_LINK}|[:\s]{1,3}))?(${ID})`,
  "iu",
);
const MARKER = new RegExp(String.raw`${MARKER_WORD}(?:${MARKER_LINK}|[ \t]?:[ \t]?)(${ID})`, "giu");

/**
 * The hypothesis that a short text names by the ID at its start, by its only marker, or by the text of the hypothesis.
 */
export function findNamed(hypotheses: readonly Hypothesis[], text: string): Hypothesis | undefined {
  const leading = LEADING_ID.exec(text)?.[1];
  const byId = leading === undefined ? undefined : findById(hypotheses, leading);
  if (byId !== undefined) return byId;
  const marked = new Set(
    [...text.matchAll(MARKER)].flatMap((match) => findById(hypotheses, match[1] ?? "") ?? []),
  );
  if (marked.size > 0) return marked.size === 1 ? [...marked][0] : undefined;
  const said = oneLine(text).toLowerCase();
  return hypotheses.find((hypothesis) => said !== "" && oneLine(hypothesis.text).toLowerCase() === said);
}

const WHOLE_ID = new RegExp(
  String.raw`^[\s"'*_#\[(]{0,6}(?:${MARKER_WORD}[-‐-―:\s]{1,3})?(${ID})[\s"'*_\])]{0,6}$`,
  "iu",
);

/** The hypotheses that a short text names, by a list of IDs such as `H-1, H-2: flat` or by a single name. */
export function findAllNamed(hypotheses: readonly Hypothesis[], text: string): readonly Hypothesis[] {
  const head = text.slice(0, 400).split(/:\s|\s[—–-]\s/)[0] ?? "";
  const listed = head.split(/[,;/&]|\s(?:and|y|e)\s/i).map((part) =>
    findById(hypotheses, WHOLE_ID.exec(part)?.[1] ?? "")
  );
  const known = listed.filter((hypothesis) => hypothesis !== undefined);
  if (listed.length > 1 && known.length === listed.length) return known;
  return [findNamed(hypotheses, text)].filter((hypothesis) => hypothesis !== undefined);
}

export function findLeading(hypotheses: readonly Hypothesis[], text: string): Hypothesis | undefined {
  const named = findNamed(hypotheses, text);
  if (named !== undefined) return named;
  const words = wordsOf(text);
  let best: Hypothesis | undefined;
  let bestLikeness = MIN_LIKENESS;
  for (const hypothesis of hypotheses) {
    const likeness = compareWords(words, wordsOf(hypothesis.text));
    if (likeness > bestLikeness || (likeness === bestLikeness && best === undefined)) {
      [best, bestLikeness] = [hypothesis, likeness];
    }
  }
  return best;
}

/** Words of at least four letters, without accents. */
function wordsOf(text: string): ReadonlySet<string> {
  const plain = text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();
  return new Set(plain.match(/[\p{L}\p{N}]{4,}/gu) ?? []);
}

function compareWords(a: ReadonlySet<string>, b: ReadonlySet<string>): number {
  const common = a.intersection(b).size;
  return common === 0 ? 0 : common / (a.size + b.size - common);
}
