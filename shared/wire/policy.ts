// Runtime grants (`/v1/policy/hosts/{host}/grants`, `/v1/policy/grants`) and versions of the hosts in a
// signer's database (`/v1/policy/versions`).
import * as z from "@zod/zod";
import { hasInvisible } from "../text.ts";
import { each, optional } from "./sign.ts";

/** A time in milliseconds since the epoch as RFC 3339, UTC, whole seconds. */
export function formatTimestamp(ms: number): string {
  return new Date(ms).toISOString().replace(/\.\d{3}Z$/, "Z");
}

/** A request for temporary allow patterns on one host. */
export interface GrantRequest {
  /** RE2 patterns of allowed commands, at least one. */
  readonly allow: readonly string[];
  /** The lifetime of the grant. */
  readonly ttl_seconds: number;
  /** The broker that may use the grant. Empty: any caller. */
  readonly caller: string;
  /** The end user who may use the grant. Empty: any end user. */
  readonly end_user: string;
}

/** The longest lifetime of a grant, in seconds. A later date has more than four digits for the year. */
export const LONGEST_GRANT_TTL_SECONDS: number = 100 * 366 * 86_400;

// Reject invisible characters: no caller or end user has such a name, and a NUL would truncate the name in a
// database.
const scope = z.string().refine((text) => !hasInvisible(text), "control characters not allowed").default("");

/** Decodes a {@linkcode GrantRequest}; unknown fields are dropped. An empty pattern would allow everything. */
export const grantRequest: z.ZodType<GrantRequest> = z.object({
  allow: z.array(z.string().min(1)).min(1),
  ttl_seconds: z.int().positive().max(LONGEST_GRANT_TTL_SECONDS),
  ...each(scope, "caller", "end_user"),
});

/** The answer to a creation, status 201. */
interface GrantCreated {
  /** 24 lowercase hex characters, for `DELETE /v1/policy/grants/{id}`. */
  readonly id: string;
  /** The host or cluster. */
  readonly host: string;
  /** RFC 3339, UTC, whole seconds. */
  readonly expires_at: string;
}

/** Decodes a {@linkcode GrantCreated}. */
export const grantCreated: z.ZodType<GrantCreated> = z.object(each(z.string(), "id", "host", "expires_at"));

/** An active grant or waiver. Fields that are empty or false are absent. */
export interface GrantInfo {
  /** 24 lowercase hex characters. */
  readonly id: string;
  /** The host or cluster. */
  readonly host: string;
  /** Patterns of allowed commands; absent in a waiver. */
  readonly allow?: readonly string[] | undefined;
  /** Patterns of commands that need no approval. */
  readonly waive_approval?: readonly string[] | undefined;
  /** The broker that may use it. Absent in a grant: any caller. */
  readonly caller?: string | undefined;
  /** The end user. Absent in a grant: any end user. Absent in a waiver: only requests without end user. */
  readonly end_user?: string | undefined;
  /** In a waiver: the commands run with sudo. */
  readonly sudo?: boolean | undefined;
  /** In a waiver: the account for sudo. */
  readonly sudo_user?: string | undefined;
  /** In a waiver: the SHA-256 of the content that may be transferred. */
  readonly content_sha256?: string | undefined;
  /** The admin who created the grant, or the approver of the waiver. */
  readonly approver?: string | undefined;
  /** The approval that a waiver was learned from. */
  readonly approval_id?: string | undefined;
  /** RFC 3339, UTC, whole seconds. */
  readonly granted_at: string;
  /** RFC 3339, UTC, whole seconds. */
  readonly expires_at: string;
}

/** Decodes the list of active grants. */
export const grantList: z.ZodType<readonly GrantInfo[]> = z.array(z.object({
  ...each(z.string(), "id", "host", "granted_at", "expires_at"),
  ...each(optional.texts, "allow", "waive_approval"),
  ...each(optional.text, "caller", "end_user", "sudo_user", "content_sha256", "approver", "approval_id"),
  sudo: optional.flag,
}));

/** The answer to the revocation of a grant. */
interface GrantRevoked {
  /** `ok`. */
  readonly status: string;
  /** The revoked grant. */
  readonly id: string;
}

/** Decodes a {@linkcode GrantRevoked}. */
export const grantRevoked: z.ZodType<GrantRevoked> = z.object(each(z.string(), "status", "id"));

/** The longest body of a change: 20,000 hosts of 1,600 bytes. */
export const MAX_POLICY_BODY_BYTES: number = 32 * 1024 * 1024;

/** The hosts that an operator wants in force: either `hosts` or `from_version`. */
export interface PolicyRequest {
  /** The version that the change is based on; 0: none. If another version is in force, the change is rejected. */
  readonly base_version: number;
  /** All hosts by name, as in `hosts` of the signer's config. */
  readonly hosts?: Readonly<Record<string, unknown>> | undefined;
  /** The earlier version whose hosts come into force again. */
  readonly from_version?: number | undefined;
  /** Check the change without making it. */
  readonly dry_run: boolean;
}

const hosts = z.record(z.string(), z.unknown());

/** Decodes a {@linkcode PolicyRequest}; unknown fields are dropped. */
export const policyRequest: z.ZodType<PolicyRequest> = z.object({
  base_version: z.int().min(0),
  hosts: hosts.optional(),
  from_version: z.int().positive().optional(),
  dry_run: z.boolean().default(false),
});

/** The new version and its number of hosts. */
export interface PolicyChanged {
  /** The new version. */
  readonly version: number;
  /** The number of hosts. */
  readonly hosts: number;
}

/** Decodes a {@linkcode PolicyChanged}. */
export const policyChanged: z.ZodType<PolicyChanged> = z.object(each(z.int(), "version", "hosts"));

interface PolicyVersionInfo {
  /** From 1. */
  readonly version: number;
  /** RFC 3339, UTC, whole seconds. */
  readonly made_at: string;
  /** The CN of the operator. */
  readonly made_by: string;
  /** What changed, such as `import` or `rollback to 3`. */
  readonly change: string;
}

const info = { version: z.int(), ...each(z.string(), "made_at", "made_by", "change") };

/** Decodes the history, the newest version first. */
export const policyHistory: z.ZodType<readonly PolicyVersionInfo[]> = z.array(z.object(info));

/** One version with its hosts. */
export interface PolicyVersionHosts extends PolicyVersionInfo {
  /** All hosts by name, as in `hosts` of the signer's config. */
  readonly hosts: Readonly<Record<string, unknown>>;
}

/** Decodes a {@linkcode PolicyVersionHosts}. */
export const policyVersionHosts: z.ZodType<PolicyVersionHosts> = z.object({ ...info, hosts });
