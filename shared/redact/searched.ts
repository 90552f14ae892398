/**
 * A text in which secrets are searched.
 *
 * @module
 */

/** A secret, or the beginning of a form of one, whose end is not in the text. */
export interface Open {
  /** Where the secret starts; absent when the secret has not begun. */
  readonly secret?: number;
  /** Matches up to where the secret ends. If the secret has not begun, nothing is known before a match. */
  readonly rest: RegExp;
  /** Whether this is a secret, whatever follows. */
  readonly isCertain: boolean;
}

/** A shorter search is as fast as the memory of its result. */
const MIN_REMEMBERED = 64;

/** A text, and the results of the searches in it. */
export class Searched {
  readonly text: string;
  /** Set by a rule whose result depends on what follows the text. */
  open: Open | undefined;
  readonly #isWhole: boolean;
  #found: Map<RegExp, { from: number; at: number }> | undefined;

  /** @param isWhole whether nothing follows the text */
  constructor(text: string, isWhole = true) {
    this.text = text;
    this.#isWhole = isWhole;
  }

  /** The next match of a global pattern, or the end of the text. */
  next(pattern: RegExp, from: number): number {
    const known = this.#found?.get(pattern);
    if (known !== undefined && from >= known.from && from <= known.at) return known.at;
    pattern.lastIndex = from;
    const at = pattern.exec(this.text)?.index ?? this.text.length;
    if (at - from > MIN_REMEMBERED) (this.#found ??= new Map()).set(pattern, { from, at });
    return at;
  }

  /** Whether a search ended with the text although more text may follow. */
  isUnfinished(at: number): boolean {
    return !this.#isWhole && at >= this.text.length;
  }

  /** Records that a secret may begin after the text. */
  wait(rest: RegExp): undefined {
    this.open = { rest, isCertain: false };
  }

  /** Records that a secret begins in the text and may go on after it. */
  begin(secret: number, rest: RegExp, isCertain = false): undefined {
    this.open = { secret, rest, isCertain };
  }
}
