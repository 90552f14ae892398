/**
 * Takes away what the runtime lets every program keep or start without any permission: storage on the disk that
 * lies outside the permission sets (`localStorage`, `sessionStorage`, `caches`), and threads, which would have it
 * anew. The first import of every service, so that no package has run before it.
 *
 * A package that starts a thread by `node:worker_threads` still reaches `caches` there: nothing turns that off.
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
// There only with --unstable-kv, which no service is started with.
Reflect.deleteProperty(Deno, "openKv");
