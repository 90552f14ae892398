/**
 * Points in time on the wire: RFC 3339, UTC, whole seconds.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { formatTimestamp } from "./timestamp.ts";
 *
 * assert.equal(formatTimestamp(Date.UTC(2026, 0, 2, 3, 4, 5, 999)), "2026-01-02T03:04:05Z");
 * ```
 *
 * @module
 */

/** A time in milliseconds since the epoch as text; a fraction of a second is dropped. */
export function formatTimestamp(ms: number): string {
  return new Date(ms).toISOString().replace(/\.\d{3}Z$/, "Z");
}
