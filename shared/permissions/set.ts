/**
 * What a process may do, as data: derived from its config by one pure function a service, turned into
 * flags for `deno run` and `deno compile`.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { formatFlags } from "@gateway/shared/permissions/set";
 *
 * assert.deepEqual(formatFlags({ read: ["/etc/gateway/signer.json"], net: ["127.0.0.1:9443"] }), [
 *   "--no-prompt",
 *   "--allow-read=/etc/gateway/signer.json",
 *   "--allow-net=127.0.0.1:9443",
 * ]);
 * ```
 *
 * @module
 */

/** Deno permissions of one process; what is absent is not granted. */
export interface PermissionSet {
  /** Absolute paths. */
  readonly read?: readonly string[];
  /** Absolute paths. */
  readonly write?: readonly string[];
  /** Absolute paths that stay forbidden inside a granted folder. */
  readonly denyWrite?: readonly string[];
  /** `host:port`, or a bare host or port where Deno's syntax has it. */
  readonly net?: readonly string[];
  /** Environment variables that read as undefined instead of failing (stray reads by packages). */
  readonly ignoreEnv?: readonly string[];
}
