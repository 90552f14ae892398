/**
 * The requests that a table of routes rejects because of their method, for a test of each.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { refusedMethods } from "@gateway/shared/testing";
 *
 * const rows = refusedMethods({ "/v1/things/:id": { GET: () => new Response() } });
 * assert.deepEqual(rows[0], { method: "POST", path: "/v1/things/x", allow: "GET" });
 * ```
 *
 * @module
 */

const METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"] as const;

/** A request that is answered with 405. */
export interface RefusedMethod {
  /** A method that its path does not support. */
  readonly method: string;
  readonly path: string;
  readonly allow: string;
}

/** All requests with unsupported methods. A path parameter is `x`. HEAD is supported where GET is. */
export function refusedMethods(table: Readonly<Record<string, object>>): readonly RefusedMethod[] {
  return Object.entries(table).flatMap(([path, methods]) => {
    const allow = Object.keys(methods).filter((method) => method !== "HEAD");
    const isHeadRefused = "HEAD" in methods || !allow.includes("GET");
    return METHODS.filter((method) => method === "HEAD" ? isHeadRefused : !allow.includes(method))
      .map((method) => ({ method, path: path.replace(/:\w+/g, "x"), allow: allow.join(", ") }));
  });
}
