/**
 * What LOG_LEVEL leaves out of the operator's log.
 *
 * @module
 */

/** From the least to the most severe. */
export const LOG_LEVELS = ["DEBUG", "INFO", "WARNING", "ERROR"] as const;

/** One of {@linkcode LOG_LEVELS}. */
export type LogLevel = (typeof LOG_LEVELS)[number];

/** A writer for each level; those below the least severe one write nothing. */
export function writersFrom(
  least: LogLevel,
  write: (message: string) => void,
): Readonly<Record<LogLevel, (message: string) => void>> {
  const at = (level: LogLevel) => LOG_LEVELS.indexOf(level) >= LOG_LEVELS.indexOf(least) ? write : () => {};
  return { DEBUG: at("DEBUG"), INFO: at("INFO"), WARNING: at("WARNING"), ERROR: at("ERROR") };
}
