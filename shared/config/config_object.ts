/**
 * The values that the text of a config becomes.
 *
 * @module
 */

/** An object of a config. It has no prototype, so that a key such as `constructor` is never found by accident. */
export interface ConfigObject {
  [key: string]: unknown;
}

/** The value of a config's text. */
export interface ParsedConfig {
  /** Without the large maps. */
  readonly value: ConfigObject;
  /** The entries of large maps by the map's key; they can be walked over once. */
  readonly large: ReadonlyMap<string, Iterable<readonly [string, unknown]>>;
}

/** An empty {@linkcode ConfigObject}. */
export function createConfigObject(): ConfigObject {
  return Object.create(null);
}

/** Whether a value of a config is an object, and not a list or `null`. */
export function isConfigObject(value: unknown): value is ConfigObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
