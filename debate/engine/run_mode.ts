/**
 * How runs are held.
 *
 * @module
 */

export const RUN_MODES = ["debate", "sample_then_debate"] as const;

/** `sample_then_debate`: independent diagnoses first, and a debate only about where they differ. */
export type RunMode = (typeof RUN_MODES)[number];
