/**
 * Where the new text of a config is written before it takes the old one's place.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { editPath } from "@gateway/shared/config/edit_path";
 *
 * assert.equal(editPath("/etc/gateway/signer.json"), "/etc/gateway/signer.json.new");
 * ```
 *
 * @module
 */

/** The one name that a process needs write permission for beside the config itself. */
export function editPath(configPath: string): string {
  return `${configPath}.new`;
}
