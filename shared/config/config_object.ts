/**
 * The values that the text of a config becomes.
 *
 * @module
 */

/** An object of a config. It has no prototype, so that a key such as `constructor` is never found by accident. */
export interface ConfigObject {
  [key: string]: unknown;
}

/** An empty {@linkcode ConfigObject}. */
export function createConfigObject(): ConfigObject {
  return Object.create(null);
}

/** Whether a value of a config is an object, and not a list or `null`. */
export function isConfigObject(value: unknown): value is ConfigObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
