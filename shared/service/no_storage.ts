/**
 * Removes storage on disk (`localStorage`, `sessionStorage`, `caches`) and threads, which the runtime gives every
 * program without a permission. Every service imports this first, so that no package has run before it.
 *
 * A package that starts a thread with `node:worker_threads` still reaches `caches` there.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import "@gateway/shared/service/no_storage";
 *
 * assert.equal("localStorage" in globalThis, false);
 * ```
 *
 * @module
 */

const WITHOUT_PERMISSION = [
  "localStorage",
  "sessionStorage",
  "Storage",
  "caches",
  "Cache",
  "CacheStorage",
  "Worker",
] as const;

for (const name of WITHOUT_PERMISSION) Reflect.deleteProperty(globalThis, name);
// Exists only with --unstable-kv.
Reflect.deleteProperty(Deno, "openKv");
