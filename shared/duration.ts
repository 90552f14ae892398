/**
 * Time spans as the specification's texts and operators' tools write them: as Go prints them.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { formatDuration } from "@gateway/shared/duration";
 *
 * assert.equal(formatDuration(5_400_000), "1h30m0s");
 * ```
 *
 * @module
 */

/** `2h0m0s`, `10m0s`, `45s`, `2.5s`, `300ms`, `0s`. */
export function formatDuration(milliseconds: number): string {
  if (milliseconds < 1_000) return milliseconds === 0 ? "0s" : `${milliseconds}ms`;
  const hours = Math.floor(milliseconds / 3_600_000);
  const minutes = Math.floor(milliseconds / 60_000) % 60;
  const seconds = `${(milliseconds % 60_000) / 1_000}s`;
  if (hours > 0) return `${hours}h${minutes}m${seconds}`;
  return minutes > 0 ? `${minutes}m${seconds}` : seconds;
}
