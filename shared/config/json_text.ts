/**
 * What those who walk over a JSON text share.
 *
 * @module
 */

/** How many characters are looked at in one step: a fraction of a millisecond. */
export const CHARACTERS_A_STEP: number = 1 << 14;
