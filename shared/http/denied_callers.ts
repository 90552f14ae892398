/**
 * Callers whose certificates are no longer good, though they have not ended: the list that every listener of a
 * set-up reads. A name on it stays on it; whoever lost a key gets a certificate of another name.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { parseDeniedCallers } from "@gateway/shared/http/denied_callers";
 *
 * assert.deepEqual([...parseDeniedCallers("# lost laptop\nagent-7\n")], ["agent-7"]);
 * ```
 *
 * @module
 */
import { hasUnseen } from "../characters.ts";
import { AppError } from "../errors.ts";

/**
 * Reads the list: a CN a line, `#` begins a comment line.
 *
 * @throws {AppError} `invalid_config` for a line that can't be a CN, and for a last line without its end: a list that
 * was written in part must not count as whole
 */
export function parseDeniedCallers(text: string): ReadonlySet<string> {
  if (text !== "" && !text.endsWith("\n")) {
    throw new AppError("invalid_config", "its last line has no end, it may be written in part");
  }
  const lines = text.split("\n").map((line) => line.trim());
  const bad = lines.findIndex((line) => hasUnseen(line));
  if (bad >= 0) throw new AppError("invalid_config", `line ${bad + 1} can't be a CN`);
  return new Set(lines.filter((line) => line !== "" && !line.startsWith("#")));
}
