/** What bounds the use of the tools, as their broker is configured. */
export interface ToolLimits {
  /** The most that a result holds of stdout, and of stderr, in bytes. */
  readonly maxOutputBytes: number;
  /** The largest file, in bytes. */
  readonly maxFileBytes: number;
  /** The longest life of a certificate. */
  readonly maxTtlSeconds: number;
  /** How long a call waits for a human's approval; 0: not at all. */
  readonly approvalWaitSeconds: number;
  readonly sessionIdleSeconds: number;
  readonly sessionMaxSeconds: number;
}

/** What a result of the default settings may take as JSON, in bytes: some clients refuse, or hang up at, more. */
export const RESULT_BYTES = 1_048_576;

/** What the text block shows of a stream at most, in bytes of JSON: the text is for reading. */
export const READABLE_BYTES = 65_536;

/**
 * What both streams together may take in the structured content, in bytes of JSON. Quotes, line ends and controls are
 * longer there than on the host: a fifth is for them, what is beyond that is cut off.
 */
export function contentBudget({ maxOutputBytes }: Pick<ToolLimits, "maxOutputBytes">): number {
  return Math.floor(maxOutputBytes * 2.2);
}
