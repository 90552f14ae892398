/**
 * Runtime grants: `POST /v1/policy/hosts/{host}/grants`, `GET /v1/policy/grants` and
 * `DELETE /v1/policy/grants/{id}`. The JSON itself, snake_case.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { grantRequest } from "./grant.ts";
 *
 * assert.equal(grantRequest.parse({ allow: ["^uptime$"], ttl_seconds: 60 }).caller, "");
 * assert.equal(grantRequest.safeParse({ allow: [], ttl_seconds: 60 }).success, false);
 * ```
 *
 * @module
 */
import * as z from "@zod/zod";
import { hasUnseen } from "../text.ts";

/** What an operator asks for: more allow patterns on one host, for a time. */
export interface GrantRequest {
  /** RE2 patterns, at least one. Whether they compile is decided later, after host and scope. */
  readonly allow: readonly string[];
  readonly ttl_seconds: number;
  /** The one caller it is for; empty: any. */
  readonly caller: string;
  /** The one end user it is for; empty: any. */
  readonly end_user: string;
}

/** The longest life of any grant, in seconds: a later end is not a date that every reader of the list can hold. */
export const LONGEST_GRANT_TTL_SECONDS: number = 100 * 366 * 86_400;

// No caller and no end user has such a name, and a NUL would end it early in a database.
const scope = z.string().refine((text) => !hasUnseen(text), "control characters not allowed").default("");

/** Decodes a {@linkcode GrantRequest}; unknown fields are dropped. An empty pattern would allow everything. */
export const grantRequest: z.ZodType<GrantRequest> = z.object({
  allow: z.array(z.string().min(1)).min(1),
  ttl_seconds: z.int().positive().max(LONGEST_GRANT_TTL_SECONDS),
  caller: scope,
  end_user: scope,
});

/** The answer to a creation, status 201. */
interface GrantCreated {
  /** 24 lowercase hex characters. */
  readonly id: string;
  readonly host: string;
  /** RFC 3339, UTC, whole seconds. */
  readonly expires_at: string;
}

/** Decodes a {@linkcode GrantCreated}. */
export const grantCreated: z.ZodType<GrantCreated> = z.object({
  id: z.string(),
  host: z.string(),
  expires_at: z.string(),
});

/** One active grant or waiver in the list; what is empty or false is absent. */
export interface GrantInfo {
  /** 24 lowercase hex characters. */
  readonly id: string;
  readonly host: string;
  /** Patterns that the grant adds to the host's allowlist. */
  readonly allow?: readonly string[] | undefined;
  /** Patterns of commands that need no approval any more. */
  readonly waive_approval?: readonly string[] | undefined;
  /** Absent: of a grant, any caller. */
  readonly caller?: string | undefined;
  /** Absent: of a grant, any end user; of a waiver, requests without end user only. */
  readonly end_user?: string | undefined;
  /** Of a waiver: for the elevated command. */
  readonly sudo?: boolean | undefined;
  /** Of a waiver: the account that sudo changes to. Absent: root, or no sudo. */
  readonly sudo_user?: string | undefined;
  /** Of a waiver of a file transfer: SHA-256 of what it writes. */
  readonly content_sha256?: string | undefined;
  readonly approver?: string | undefined;
  /** Of a learned waiver: the approval that it was learned from. */
  readonly approval_id?: string | undefined;
  /** RFC 3339, UTC, whole seconds. */
  readonly granted_at: string;
  /** RFC 3339, UTC, whole seconds. */
  readonly expires_at: string;
}

const strings = z.array(z.string());

/** Decodes the list of active grants. */
export const grantList: z.ZodType<readonly GrantInfo[]> = z.array(z.object({
  id: z.string(),
  host: z.string(),
  allow: strings.optional(),
  waive_approval: strings.optional(),
  caller: z.string().optional(),
  end_user: z.string().optional(),
  sudo: z.boolean().optional(),
  sudo_user: z.string().optional(),
  content_sha256: z.string().optional(),
  approver: z.string().optional(),
  approval_id: z.string().optional(),
  granted_at: z.string(),
  expires_at: z.string(),
}));

interface GrantRevoked {
  readonly status: string;
  /** Of the grant that is gone. */
  readonly id: string;
}

/** Decodes a {@linkcode GrantRevoked}. */
export const grantRevoked: z.ZodType<GrantRevoked> = z.object({ status: z.string(), id: z.string() });
