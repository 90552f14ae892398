/**
 * The names of keys in the problems of a config.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { keySegment } from "./key_path.ts";
 *
 * assert.equal(`hosts.${keySegment("web 01")}.addr`, 'hosts."web 01".addr');
 * ```
 *
 * @module
 */
import { quoteText } from "../quote.ts";

/** One part of a key path: a plain name as it is, any other in quotes with its controls escaped. */
export function keySegment(name: string): string {
  return /^[A-Za-z0-9_.@-]+$/.test(name) ? name : quoteText(name);
}
