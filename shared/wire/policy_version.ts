/**
 * Versions of the hosts in a signer's database: `GET` and `POST /v1/policy/versions`, `GET /v1/policy/versions/{version}`.
 * The JSON itself, snake_case.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { policyRequest } from "./policy_version.ts";
 *
 * assert.equal(policyRequest.parse({ base_version: 7, from_version: 3 }).dry_run, false);
 * assert.equal(policyRequest.safeParse({ from_version: 3 }).success, false);
 * ```
 *
 * @module
 */
import * as z from "@zod/zod";

/** The longest body of a change: 20,000 hosts of 1,600 bytes. */
export const MAX_POLICY_BODY_BYTES: number = 32 * 1024 * 1024;

/** What an operator wants in force; either `hosts` or `from_version`. */
export interface PolicyRequest {
  /** The version that it was made on; 0: there is none. Another one by then is refused. */
  readonly base_version: number;
  /** All hosts by name, as in `hosts` of the signer's config. */
  readonly hosts?: Readonly<Record<string, unknown>> | undefined;
  readonly from_version?: number | undefined;
  /** Only looks whether the signer would take them. */
  readonly dry_run: boolean;
}

/** Decodes a {@linkcode PolicyRequest}; unknown fields are dropped. */
export const policyRequest: z.ZodType<PolicyRequest> = z.object({
  base_version: z.int().min(0),
  hosts: z.record(z.string(), z.unknown()).optional(),
  from_version: z.int().positive().optional(),
  dry_run: z.boolean().default(false),
});

/** What became of a change. */
export interface PolicyChanged {
  /** The number of the version that was made, or would be. */
  readonly version: number;
  readonly hosts: number;
}

/** Decodes a {@linkcode PolicyChanged}. */
export const policyChanged: z.ZodType<PolicyChanged> = z.object({ version: z.int(), hosts: z.int() });

interface PolicyVersionInfo {
  /** From 1. */
  readonly version: number;
  /** RFC 3339, UTC, whole seconds. */
  readonly made_at: string;
  /** The CN of whoever made it. */
  readonly made_by: string;
  /** What was done, such as `import` or `rollback to 3`. */
  readonly change: string;
}

const info = { version: z.int(), made_at: z.string(), made_by: z.string(), change: z.string() };

/** Decodes the history, the newest first. */
export const policyHistory: z.ZodType<readonly PolicyVersionInfo[]> = z.array(z.object(info));

/** One version, whole. */
export interface PolicyVersionHosts extends PolicyVersionInfo {
  readonly hosts: Readonly<Record<string, unknown>>;
}

/** Decodes a {@linkcode PolicyVersionHosts}. */
export const policyVersionHosts: z.ZodType<PolicyVersionHosts> = z.object({
  ...info,
  hosts: z.record(z.string(), z.unknown()),
});
