/**
 * What a service's state database needs.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { stateFilePermissions } from "./state_file.ts";
 *
 * const set = stateFilePermissions("state/signer.db", "/srv");
 * assert.deepEqual(set, { read: ["/srv/state/signer.db"], write: ["/srv/state/signer.db"] });
 * ```
 *
 * @module
 */
import { resolve } from "node:path";
import type { PermissionSet } from "./set.ts";

/**
 * The database alone: SQLite's own files beside it are below what Deno looks at.
 *
 * @param state_db the path as in the config; nothing for an empty one
 * @param workingFolder the absolute folder that relative paths start from
 */
export function stateFilePermissions(state_db: string, workingFolder: string): PermissionSet {
  if (state_db === "") return {};
  const path = resolve(workingFolder, state_db);
  return { read: [path], write: [path] };
}
