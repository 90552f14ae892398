/**
 * How messages name a place in a config.
 *
 * @module
 */

/** The keys and list positions from the top of a config to one of its values. */
export type KeyPath = readonly PropertyKey[];

/** `hosts.web01.addr`, `redact.patterns[0].name`; a key with other characters is quoted: `hosts["web.example"]`. */
export function formatKeyPath(path: KeyPath): string {
  let text = "";
  for (const key of path) {
    if (typeof key === "number") text += `[${key}]`;
    else if (typeof key === "string" && /^[\w-]+$/.test(key)) text += text === "" ? key : `.${key}`;
    else text += `[${JSON.stringify(String(key))}]`;
  }
  return text;
}
