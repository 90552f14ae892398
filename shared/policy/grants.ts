/**
 * Runtime grants and learned approval waivers: what was given at run time, ready to be asked about. A grant
 * adds allow patterns to a host that has an allowlist, nothing else; a waiver spares one exact command its
 * approval.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { addGrant, compileGrant, findGrantedPatterns, NO_GRANTS } from "./grants.ts";
 *
 * const compiled = compileGrant({
 *   id: "0123456789abcdef01234567",
 *   host: "web01",
 *   allow: ["^uptime$"],
 *   waiveApproval: [],
 *   caller: "broker-1",
 *   endUser: "",
 *   sudo: false,
 *   sudoUser: "",
 *   contentSha256: "",
 *   approver: "operator",
 *   approvalId: "",
 *   grantedAt: 0,
 *   expiresAt: 60_000,
 * });
 * assert(compiled.kind === "ok");
 * const grants = addGrant(NO_GRANTS, compiled.grant);
 * const wish = { host: "web01", caller: "broker-1", endUser: "alice" };
 * assert.equal(findGrantedPatterns({ grants, now: 59_999 }, wish).length, 1);
 * assert.equal(findGrantedPatterns({ grants, now: 60_000 }, wish).length, 0);
 * ```
 *
 * @module
 */
import { AppError } from "../errors.ts";
import type { GrantInfo } from "../wire/grant.ts";
import { formatTimestamp } from "../wire/timestamp.ts";
import { compilePattern, type Pattern } from "./pattern.ts";

/** A grant or a waiver as it is kept. */
export interface Grant {
  /** 24 lowercase hex characters. */
  readonly id: string;
  /** The host, or the cluster, it is for. */
  readonly host: string;
  /** Patterns added to the host's allowlist. */
  readonly allow: readonly string[];
  /** Patterns of commands that need no approval. */
  readonly waiveApproval: readonly string[];
  /** Of a grant, empty is any caller; of a waiver it is exact. */
  readonly caller: string;
  /** Of a grant, empty is any end user; of a waiver it is exact: empty is a request without one. */
  readonly endUser: string;
  /** Of a waiver: of the command elevated, or of the command not elevated. */
  readonly sudo: boolean;
  readonly sudoUser: string;
  /** Of a waiver of a file transfer: SHA-256 of what it writes. Empty for all else. */
  readonly contentSha256: string;
  readonly approver: string;
  /** The approval it was learned from; empty: none. */
  readonly approvalId: string;
  /** Milliseconds since the epoch. */
  readonly grantedAt: number;
  /** Milliseconds since the epoch; from then on it has no effect. */
  readonly expiresAt: number;
}

/** A grant with its patterns ready. */
export interface ReadyGrant {
  readonly grant: Grant;
  /** Compiled from `allow`, in its order. */
  readonly allow: readonly Pattern[];
  /** Compiled from `waiveApproval`, in its order. */
  readonly waives: readonly Pattern[];
}

/** What became of a {@linkcode Grant}. */
type GrantCompilation =
  | { readonly kind: "ok"; readonly grant: ReadyGrant }
  /** Which pattern can't be used, and why. */
  | { readonly kind: "invalid"; readonly problem: string };

/** All grants and waivers, expired ones possibly among them; immutable. */
export interface GrantSet {
  /** By the id of the grant. */
  readonly byId: ReadonlyMap<string, ReadyGrant>;
  /** In the order in which they were added. */
  readonly byHost: ReadonlyMap<string, readonly ReadyGrant[]>;
}

/** What a decision needs beside the policy. */
export interface LiveGrants {
  /** Those that may be in force. */
  readonly grants: GrantSet;
  /** Milliseconds since the epoch. */
  readonly now: number;
}

/** No grants. */
export const NO_GRANTS: GrantSet = { byId: new Map(), byHost: new Map() };

/** Compiles the patterns of a grant, all or none. */
export function compileGrant(grant: Grant): GrantCompilation {
  try {
    const allow = grant.allow.map(compilePattern);
    const waives = grant.waiveApproval.map(compilePattern);
    return { kind: "ok", grant: { grant, allow, waives } };
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    return { kind: "invalid", problem: error.message };
  }
}

/** The set with one grant more. */
export function addGrant(set: GrantSet, ready: ReadyGrant): GrantSet {
  const { id, host } = ready.grant;
  const rest = set.byId.has(id) ? removeGrants(set, new Set([id])) : set;
  return {
    byId: new Map(rest.byId).set(id, ready),
    byHost: new Map(rest.byHost).set(host, [...rest.byHost.get(host) ?? [], ready]),
  };
}

/** The set without the grants of these ids. */
export function removeGrants(set: GrantSet, ids: ReadonlySet<string>): GrantSet {
  const byId = new Map(set.byId);
  const byHost = new Map(set.byHost);
  for (const id of ids) {
    const removed = byId.get(id);
    if (removed === undefined) continue;
    byId.delete(id);
    const { host } = removed.grant;
    const rest = (byHost.get(host) ?? []).filter(({ grant }) => grant.id !== id);
    if (rest.length > 0) byHost.set(host, rest);
    else byHost.delete(host);
  }
  return { byId, byHost };
}

/** Whether a grant has an effect at a time. */
export function isActive({ expiresAt }: Grant, now: number): boolean {
  return now < expiresAt;
}

/** The active grants and waivers, the oldest first. */
export function listActive({ grants, now }: LiveGrants): readonly Grant[] {
  return [...grants.byId.values()].map(({ grant }) => grant).filter((grant) => isActive(grant, now))
    .sort((a, b) => a.grantedAt - b.grantedAt || (a.id < b.id ? -1 : 1));
}

/** The allow patterns that active grants add for this host, caller and end user, a list for each grant. */
export function findGrantedPatterns(
  { grants, now }: LiveGrants,
  wish: { readonly host: string; readonly caller: string; readonly endUser: string },
): readonly (readonly Pattern[])[] {
  return (grants.byHost.get(wish.host) ?? [])
    .filter(({ grant, allow }) =>
      allow.length > 0 && isActive(grant, now) && admits(grant.caller, wish.caller) &&
      admits(grant.endUser, wish.endUser)
    )
    .map(({ allow }) => allow);
}

/** A grant as it stands in the list; what is empty or false is absent. */
export function toGrantInfo(grant: Grant): GrantInfo {
  return {
    id: grant.id,
    host: grant.host,
    ...(grant.allow.length > 0 && { allow: grant.allow }),
    ...(grant.waiveApproval.length > 0 && { waive_approval: grant.waiveApproval }),
    ...(grant.caller !== "" && { caller: grant.caller }),
    ...(grant.endUser !== "" && { end_user: grant.endUser }),
    ...(grant.sudo && { sudo: true }),
    ...(grant.sudoUser !== "" && { sudo_user: grant.sudoUser }),
    ...(grant.contentSha256 !== "" && { content_sha256: grant.contentSha256 }),
    ...(grant.approver !== "" && { approver: grant.approver }),
    ...(grant.approvalId !== "" && { approval_id: grant.approvalId }),
    granted_at: formatTimestamp(grant.grantedAt),
    expires_at: formatTimestamp(grant.expiresAt),
  };
}

function admits(scope: string, name: string): boolean {
  return scope === "" || scope === name;
}
