/**
 * Which hosts a caller may use at all: the callers table (by groups) and a host's own `allowed_callers`.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { compilePolicy } from "@gateway/shared/policy";
 * import { mayUseHost } from "@gateway/shared/policy";
 *
 * const compiled = compilePolicy({
 *   hosts: {},
 *   callers: { broker: { allowed_groups: ["web"] } },
 *   command_policies: {},
 *   group_command_policies: {},
 *   max_ttl_seconds: 0,
 * });
 * assert(compiled.kind === "ok");
 * assert.equal(mayUseHost(compiled.policy, "stranger", "web01"), "group");
 * ```
 *
 * @module
 */
import type { HostInfo, HostsResponse } from "../wire/host.ts";
import type { CompiledCaller, CompiledHost, CompiledPolicy } from "./compile.ts";
import { needsOwnCertificates } from "./compile_host.ts";

const NO_GROUPS: ReadonlySet<string> = new Set();

/**
 * The gate in front of all other policy: `group` when the callers table keeps the caller (the effective one)
 * from the host. An unknown host then answers the same, so that its name tells nothing.
 */
export function mayUseHost(policy: CompiledPolicy, caller: string, host: string): "ok" | "group" {
  return isInGroups(policy, caller, policy.hosts.get(host)?.groups ?? []) ? "ok" : "group";
}

/** Whether the callers table gives a caller any group at all. */
export function mayUseSome(policy: CompiledPolicy, caller: string): boolean {
  return findGroups(policy, caller)?.size !== 0;
}

/** Whether the callers table lets a caller at what is in these groups; without a table anybody. */
export function isInGroups(policy: CompiledPolicy, caller: string, groups: readonly string[]): boolean {
  const allowed = findGroups(policy, caller);
  return allowed === undefined || groups.some((group) => allowed.has(group));
}

/**
 * Whether a caller's requests may come this way: from the peer, which is a forwarder, or the caller itself. A row
 * `_default` holds for every caller without one here too.
 */
export function mayComeFrom(policy: CompiledPolicy, caller: string, peer: string): boolean {
  const onlyVia = rowOf(policy, caller)?.onlyVia;
  return onlyVia === undefined || onlyVia.has(peer);
}

/** Whether the host's own list admits the caller. */
export function isAllowedCaller(host: CompiledHost, caller: string): boolean {
  return host.allowedCallers.size === 0 || host.allowedCallers.has(caller);
}

/** Whether a caller is told of a host. */
export function isVisibleHost(policy: CompiledPolicy, caller: string, host: CompiledHost): boolean {
  return mayUseHost(policy, caller, host.name) === "ok" && isAllowedCaller(host, caller);
}

/** The hosts that a caller may use, in the shape of `GET /v1/hosts`, sorted by name. */
export function visibleHosts(policy: CompiledPolicy, caller: string): HostsResponse {
  const names = [...policy.hosts.keys()].sort();
  const entries: [string, HostInfo][] = [];
  for (const name of names) {
    const host = policy.hosts.get(name);
    if (host === undefined || !isVisibleHost(policy, caller, host)) continue;
    entries.push([name, toHostInfo(host)]);
  }
  return Object.fromEntries(entries);
}

/** The caller's groups, or undefined when there is no callers table and so no restriction. */
function findGroups(policy: CompiledPolicy, caller: string): ReadonlySet<string> | undefined {
  if (policy.callers.size === 0) return undefined;
  return rowOf(policy, caller)?.groups ?? NO_GROUPS;
}

function rowOf({ callers }: CompiledPolicy, caller: string): CompiledCaller | undefined {
  return callers.get(caller) ?? callers.get("_default");
}

/** A host in the shape of `GET /v1/hosts`. */
export function toHostInfo(host: CompiledHost): HostInfo {
  return {
    addr: host.addr,
    user: host.user,
    host_key: host.hostKey,
    ...(host.jump !== "" && { jump: host.jump }),
    ...(host.allowSudo && { allow_sudo: true }),
    ...(host.allowPty && { allow_pty: true }),
    ...(host.allowFileTransfer && { allow_file_transfer: true }),
    ...(host.stopOnDisconnect && { stop_on_disconnect: true }),
    ...(needsOwnCertificates(host) && { unsealed_sessions: false }),
    ...(host.groups.length > 0 && { groups: host.groups }),
  };
}
