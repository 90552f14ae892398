/**
 * How messages name a place in a config or a request.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { formatKeyPath } from "./key_path.ts";
 *
 * assert.equal(formatKeyPath(["hosts", "web01", "groups", 0]), "hosts.web01.groups[0]");
 * assert.equal(formatKeyPath(["hosts", "web.01", "addr"]), 'hosts["web.01"].addr');
 * ```
 *
 * @module
 */
import { quoteText } from "./quote.ts";

/** The keys and list positions from the top of a config to one of its values. */
export type KeyPath = readonly PropertyKey[];

/** `hosts.web01.addr`, `redact.patterns[0].name`; a key with other characters, a dot too, is quoted: `hosts["web.01"]`. */
export function formatKeyPath(path: KeyPath): string {
  let text = "";
  for (const key of path) {
    if (typeof key === "number") text += `[${key}]`;
    else if (typeof key === "string" && /^[\w-]+$/.test(key)) text += text === "" ? key : `.${key}`;
    else text += `[${quoteText(String(key))}]`;
  }
  return text;
}
